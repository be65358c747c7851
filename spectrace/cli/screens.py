"""Where reports go: a live table, plain lines for a log, or JSON for programs."""

from __future__ import annotations

import sys
from typing import Protocol, TextIO

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from spectrace.attach.session import End, Stall
from spectrace.cli import figures, table
from spectrace.cli.output import write_whole
from spectrace.cli.report import Report
from spectrace.model import Run

_ENDS = {
    End.TAKEN_OUT: (
        "The probe is out of the server: another command took it out, or it left because "
        "it had heard nothing from here for 30 s."
    ),
    End.PROBE_FAILED: "The probe met an error of its own and took itself out of the server.",
}


class Screen(Protocol):
    """What shows a session."""

    every_s: float

    def note(self, text: str) -> None:
        """Something to know, in a sentence."""

    def close(self) -> None:
        """Ends what was live."""

    def found(self, run: Run) -> None:
        """A server was found and will be attached to."""

    def attached(self, stalls: tuple[Stall, ...], *, over: bool = False) -> None:
        """The probe is in, and attaching held these ranks up for so long.

        Args:
            stalls: Of the ranks.
            over: The session has ended: what has not happened does not happen any more.
        """

    def show(self, report: Report) -> None:
        """What the last seconds showed."""

    def ended(self, report: Report) -> None:
        """What the whole session showed, and how it ended."""


class LineScreen:
    """One plain line a second, for output that is not a terminal.

    Args:
        console: Where to print.
    """

    every_s = 1.0

    def __init__(self, console: Console) -> None:
        self._console = console

    def close(self) -> None:
        """Nothing is live."""

    def note(self, text: str) -> None:
        """Prints the sentence."""
        self.say(text)

    def say(self, text: str) -> None:
        """Prints a sentence as it is: without markup, without folding for a log."""
        folds = self._console.is_terminal
        self._console.print(text, markup=False, highlight=False, soft_wrap=not folds)

    def found(self, run: Run) -> None:
        """Lists the ranks."""
        ranks = ", ".join(f"{rank.name} (process {rank.pid})" for rank in run.ranks)
        self.say(f"Attaching to server {run.server_pid}: {ranks}.")

    def attached(self, stalls: tuple[Stall, ...], *, over: bool = False) -> None:
        """Says for how long each rank was held up."""
        for line in figures.stall_lines(stalls, over=over):
            self.say(line)

    def show(self, report: Report) -> None:
        """Prints the line."""
        self.say(figures.one_line(report))

    def ended(self, report: Report) -> None:
        """Says how the session ended and prints its table."""
        self.say_how_it_ended(report)
        self.say("")
        self.say(f"The whole session, {report.summary.window_s:,.1f} s:")
        self._console.print(self.whole(report), highlight=False)

    def say_how_it_ended(self, report: Report) -> None:
        """Says why the session ended, and how taking the probe out went."""
        if report.end is not None:
            self.say(_ENDS.get(report.end) or figures.death_line(report))
        if report.end is not End.TAKEN_OUT:
            living = figures.of_the_living(report.removals, report.session.ranks)
            for line in figures.removal_lines(living):
                self.say(line)

    def whole(self, report: Report) -> RenderableType:
        """The table of the session."""
        return table.render(report)


class LiveScreen(LineScreen):
    """A table that is drawn again four times a second, and never higher than the terminal.

    Args:
        console: A terminal.
    """

    every_s = 0.25

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def close(self) -> None:
        """Takes the live table away; the last one is printed by `ended`."""
        if self._live.is_started:
            # Stopping draws a last time, without a limit: what has scrolled out then would stay.
            self._live.update(Text(""), refresh=True)
        self._live.stop()

    def show(self, report: Report) -> None:
        """Draws the table."""
        if not self._live.is_started:
            self._live.start()
        picture = table.fit(report, self._console, self._console.height - 1)
        # On a line of its own the ^C that a terminal echoes moves nothing.
        self._live.update(Group(picture, Text("")), refresh=True)

    def whole(self, report: Report) -> RenderableType:
        """The table of the session, laid out as the live one was."""
        return table.render(report, table.wide(self._console))


class JsonScreen:
    """One JSON object a second, each on a line of its own, and a last one of the session.

    Args:
        stream: Where to write.
    """

    every_s = 1.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def note(self, text: str) -> None:
        """Goes to stderr, beside the objects."""
        print(text, file=sys.stderr)

    def close(self) -> None:
        """Nothing is live."""

    def found(self, run: Run) -> None:
        """Every object names the ranks."""

    def attached(self, stalls: tuple[Stall, ...], *, over: bool = False) -> None:
        """Every object carries the stalls."""

    def show(self, report: Report) -> None:
        """Writes the object."""
        write_whole(self._stream, msgspec.json.encode(report).decode() + "\n")

    def ended(self, report: Report) -> None:
        """Writes the last object."""
        self.show(report)
