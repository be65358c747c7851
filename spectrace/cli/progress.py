"""Shows how far a long command is: lines that stay, and on a terminal one that is replaced."""

from __future__ import annotations

from rich.console import Console
from rich.status import Status


class LineProgress:
    """Sentences, one line each; nothing in between.

    Args:
        console: Where to print.
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    def note(self, text: str) -> None:
        """Prints it as it is."""
        folds = self.console.is_terminal
        self.console.print(text, markup=False, highlight=False, soft_wrap=not folds)

    def at(self, text: str) -> None:
        """Nothing: a log has no place for it."""

    def round(self, text: str) -> None:
        """Prints it."""
        self.note(text)

    def close(self) -> None:
        """Nothing is live."""


class LiveProgress(LineProgress):
    """The same, and below it a line that says where it stands.

    Args:
        console: A terminal.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._status = Status("", console=console)

    def at(self, text: str) -> None:
        """Shows it in place of what stood there."""
        self._status.update(text)
        self._status.start()

    def close(self) -> None:
        """Takes the line away."""
        self._status.stop()


def progress_on(console: Console) -> LineProgress:
    """The one that fits: live on a terminal, lines elsewhere."""
    return LiveProgress(console) if console.is_terminal else LineProgress(console)
