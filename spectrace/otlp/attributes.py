"""Reads attributes that somebody else sent: each by name, with its type and its bounds checked."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

MAX_INT64 = (1 << 63) - 1
MAX_INT32 = (1 << 31) - 1
MAX_DRAFTS = 4096
"""Draft steps, branches, and tokens drafted or found correct, of one request in one cycle."""
MAX_TEXT = 4096
"""Characters of an id or a name."""
MAX_ARGUMENT = 128 * 1024
"""Characters of one argument of a command line, which Linux bounds at 128 KiB."""
MAX_VALUES = 65_536
"""Values of one array."""

_Choice = TypeVar("_Choice", bound=Enum)


class RefusedError(ValueError):
    """A span that is not stored; the message is the reason, and holds nothing that was sent."""


class Attributes:
    """The attributes of one span or resource; of several with one name the last counts.

    Args:
        pairs: As protobuf holds them.
    """

    def __init__(self, pairs: Iterable[KeyValue]) -> None:
        self._values = {pair.key: pair.value for pair in pairs}

    def __contains__(self, name: str) -> bool:
        """Whether there is an attribute with this name."""
        return name in self._values

    def text(self, name: str, limit: int = MAX_TEXT) -> str:
        """A text of at most `limit` characters.

        Raises:
            RefusedError: It is missing, of another type or too long.
        """
        return _text(name, self._value(name), limit)

    def shown(self, name: str, limit: int) -> str:
        """The first `limit` characters of a text; empty where it is missing or of another type."""
        value = self._values.get(name)
        return "" if value is None else value.string_value[:limit]

    def integer(self, name: str, *, high: int = MAX_INT64) -> int:
        """An integer from 0 to `high`.

        Raises:
            RefusedError: It is missing, of another type or out of bounds.
        """
        return _integer(name, self._value(name), 0, high)

    def optional_integer(self, name: str, *, high: int = MAX_INT64) -> int | None:
        """An integer from 0 to `high`, None where it is missing.

        Raises:
            RefusedError: It is of another type or out of bounds.
        """
        return self.integer(name, high=high) if name in self._values else None

    def flag(self, name: str) -> bool:
        """A boolean, False where it is missing.

        Raises:
            RefusedError: It is of another type.
        """
        return name in self._values and _flag(name, self._values[name])

    def choice(self, name: str, choices: type[_Choice]) -> _Choice:
        """One of `choices`, by its value.

        Raises:
            RefusedError: It is missing, of another type or none of them.
        """
        return choice(name, self.text(name), choices)

    def texts(self, name: str, limit: int = MAX_TEXT) -> tuple[str, ...]:
        """An array of texts of at most `limit` characters each.

        Raises:
            RefusedError: It is missing, of another type or too long, or one of its values is.
        """
        return tuple(_text(name, value, limit) for value in self._array(name))

    def integers(self, name: str, *, low: int = 0, high: int = MAX_INT64) -> tuple[int, ...]:
        """An array of integers from `low` to `high`.

        Raises:
            RefusedError: It is missing, of another type or too long, or one of its values is
                of another type or out of bounds.
        """
        return tuple(_integer(name, value, low, high) for value in self._array(name))

    def flags(self, name: str, length: int) -> tuple[bool, ...]:
        """An array of booleans, `length` times False where it is missing.

        Raises:
            RefusedError: It or one of its values is of another type, or it is too long.
        """
        if name not in self._values:
            return (False,) * length
        return tuple(_flag(name, value) for value in self._array(name))

    def _value(self, name: str) -> AnyValue:
        if name not in self._values:
            raise RefusedError(f"{name} is missing")
        return self._values[name]

    def _array(self, name: str) -> Iterable[AnyValue]:
        value = self._value(name)
        _check_type(name, value, "array_value", "array")
        if len(value.array_value.values) > MAX_VALUES:
            raise RefusedError(f"{name} has more than {MAX_VALUES} values")
        return value.array_value.values


def choice(name: str, text: str, choices: type[_Choice]) -> _Choice:
    """The one of `choices` whose value is `text`.

    Raises:
        RefusedError: There is none.
    """
    try:
        return choices(text)
    except ValueError:
        raise RefusedError(f"{name} is none of the known ones") from None


def _check_type(name: str, value: AnyValue, field: str, word: str) -> None:
    if value.WhichOneof("value") != field:
        raise RefusedError(f"{name} is no {word}")


def _text(name: str, value: AnyValue, limit: int) -> str:
    _check_type(name, value, "string_value", "text")
    if len(value.string_value) > limit:
        raise RefusedError(f"{name} has more than {limit} characters")
    return value.string_value


def _integer(name: str, value: AnyValue, low: int, high: int) -> int:
    _check_type(name, value, "int_value", "integer")
    if not low <= value.int_value <= high:
        raise RefusedError(f"{name} is not between {low} and {high}")
    return value.int_value


def _flag(name: str, value: AnyValue) -> bool:
    _check_type(name, value, "bool_value", "boolean")
    return value.bool_value
