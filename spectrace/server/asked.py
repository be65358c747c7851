"""Parameters of an address that the API checks itself: what is wrong with one is a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from enum import Enum
from typing import TypeVar

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

MOST_NAME = 64  # characters of a group or a rank
MOST_NUMBER = (1 << 63) - 1
_MOST_DIGITS = 19
_E = TypeVar("_E", bound=Enum)
_T = TypeVar("_T")


class Asked:
    """The parameters of one address.

    Args:
        parameters: As they came.
        known: Names of those that there may be.

    Raises:
        HTTPException: One is unknown or given twice. Status 400, like all that follow.
    """

    def __init__(self, parameters: QueryParams, known: Collection[str]) -> None:
        self._parameters = parameters
        names = [name for name, _ in parameters.multi_items()]
        for name in names:
            if name not in known:
                raise _wrong(f"There is no parameter {_shown(name)}: there are {', '.join(known)}.")
            if names.count(name) > 1:
                raise _wrong(f"{name} is given twice: give it once.")

    def number(self, name: str, least: int = 0, most: int = MOST_NUMBER) -> int | None:
        """A whole number, None where it is not given.

        Raises:
            HTTPException: It is none, or out of bounds.
        """

        def read(text: str) -> int | None:
            digits = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
            return int(text) if digits and least <= int(text) <= most else None

        return self._read(name, read, f"a whole number from {least} to {most}")

    def seconds(self, name: str, most: float) -> float | None:
        """A time in s above 0, None where it is not given.

        Raises:
            HTTPException: It is none, or out of bounds.
        """

        def read(text: str) -> float | None:
            try:
                value = float(text)
            except ValueError:
                return None
            return value if math.isfinite(value) and 0 < value <= most else None

        return self._read(name, read, f"a time in s above 0, at most {most:g}")

    def word(self, name: str, words: type[_E]) -> _E | None:
        """One of some words, None where it is not given.

        Raises:
            HTTPException: It is another word.
        """
        known: dict[str, _E] = {one.value: one for one in words}
        return self._read(name, known.get, f"one of {', '.join(known)}")

    def text(self, name: str, most: int = MOST_NAME) -> str | None:
        """Any text that is not too long, None where it is not given.

        Raises:
            HTTPException: It is too long, or holds half a character, which no database takes.
        """

        def read(text: str) -> str | None:
            return text if len(text) <= most and _is_unicode(text) else None

        return self._read(name, read, f"a text of at most {most} characters")

    def _read(self, name: str, read: Callable[[str], _T | None], what: str) -> _T | None:
        text = self._parameters.get(name)
        if text is None:
            return None
        value = read(text)
        if value is None:
            raise _wrong(f"{name} is {_shown(text)} and should be {what}.")
        return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(text: str) -> str:
    """A text of others as it may stand in a sentence."""
    return ascii(text if len(text) <= MOST_NAME else f"{text[:MOST_NAME]}…")


def _wrong(sentence: str) -> HTTPException:
    return HTTPException(400, sentence)
