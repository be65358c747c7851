"""The one error that spectrace shows to people: a sentence, what to do, and an exit code."""

from __future__ import annotations


class SpectraceError(Exception):
    """Something that the person at the keyboard can understand and mend.

    Args:
        message: One sentence: what happened, to what, and what to do now.
        exit_code: Exit status of the command, never 0.
    """

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
