"""Reads the OTEL_* variables of one signal; what cannot be followed is told and passed over."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

COMPRESSIONS = ("gzip", "deflate", "none")
_PREFIX = "OTEL_EXPORTER_OTLP_"
_MS_PER_S = 1000
_Parsed = TypeVar("_Parsed")


class Signal(NamedTuple):
    """What is sent over OTLP.

    Attributes:
        name: As it stands in variables.
        path: Where an endpoint takes it, by HTTP.
        option: Of the command line, that names an endpoint.
        protocols: What it is sent by, the usual one first.
    """

    name: str
    path: str
    option: str
    protocols: tuple[str, ...]


class Variables:
    """The variables of one signal.

    Args:
        signal: The signal.
        environ: Environment variables; an empty one is as good as none.

    Attributes:
        signal: The signal.
        environ: Environment variables.
        notices: Sentences on those that could not be followed.
    """

    def __init__(self, signal: Signal, environ: Mapping[str, str]) -> None:
        self.signal = signal
        self.environ = environ
        self.notices: list[str] = []

    def specific(self, name: str) -> str:
        """The full name of a variable of the exporter, that of this signal."""
        return f"{_PREFIX}{self.signal.name}_{name}"

    def of_exporter(self, name: str) -> tuple[str, str]:
        """A variable of the exporter: that of this signal, or else that of all signals.

        Args:
            name: What follows OTEL_EXPORTER_OTLP_ in its name, such as `PROTOCOL`.

        Returns:
            Its full name and its value; that of all signals and "" where neither is set.
        """
        general = _PREFIX + name
        names = (self.specific(name), general)
        return next(
            ((one, self.environ[one]) for one in names if self.environ.get(one)), (general, "")
        )

    def parsed(self, name: str, default: _Parsed, parse: Callable[[str], _Parsed]) -> _Parsed:
        """What a variable says, the default where it says nothing that can be followed.

        Args:
            name: Its full name.
            default: What it is if not set.
            parse: Reads it, or raises a ValueError.
        """
        return self._parsed(name, self.environ.get(name, ""), default, parse)

    def parsed_of_exporter(
        self, name: str, default: _Parsed, parse: Callable[[str], _Parsed]
    ) -> _Parsed:
        """The same of a variable as `of_exporter` finds it."""
        return self._parsed(*self.of_exporter(name), default, parse)

    def _parsed(
        self, name: str, text: str, default: _Parsed, parse: Callable[[str], _Parsed]
    ) -> _Parsed:
        try:
            return parse(text.strip()) if text.strip() else default
        except ValueError:
            self.notices.append(f"{name} is {text!r}, which it cannot be: it is passed over.")
            return default

    def switched_off(self) -> str:
        """What keeps the signal from being sent, a clause; empty if nothing does."""
        if self.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return "OTEL_SDK_DISABLED is true"
        name = f"OTEL_{self.signal.name}_EXPORTER"
        exporters = self.environ.get(name, "")
        wanted = {one.strip().lower() for one in exporters.split(",") if one.strip()}
        return "" if not wanted or "otlp" in wanted else f"{name} is {exporters!r}"


def count(text: str) -> int:
    """A whole number above 0."""
    number = int(text)
    if number <= 0:
        raise ValueError(text)
    return number


def seconds_of_ms(text: str) -> float:
    """Seconds of a whole number of ms, 0 or more."""
    milliseconds = int(text)
    if milliseconds < 0:
        raise ValueError(text)
    return milliseconds / _MS_PER_S


def some_seconds_of_ms(text: str) -> float:
    """The same, and more than none."""
    return count(text) / _MS_PER_S


def some_seconds(text: str) -> float:
    """What the official Python exporters take as seconds, more than none."""
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise ValueError(text)
    return seconds


def compression(text: str) -> str:
    """One of `COMPRESSIONS`."""
    if text.lower() not in COMPRESSIONS:
        raise ValueError(text)
    return text.lower()


def share(text: str) -> float:
    """A number from 0 to 1."""
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError(text)
    return number
