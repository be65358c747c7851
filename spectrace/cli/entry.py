"""The way into the command `spectrace`: a line at Ctrl-C from its first moment to its last."""

from __future__ import annotations

import signal
import sys

from spectrace.cli.stopping import INTERRUPTED, SIGNALS, gone_at_ctrl_c


def main() -> None:
    """Imports the commands, runs one, and lets nothing disturb the end of the process."""
    try:
        with gone_at_ctrl_c():  # until a command has been imported, too
            from spectrace.cli.main import main as run  # noqa: PLC0415 - takes a while

            run()
    except KeyboardInterrupt:  # one more, where the first has been said
        sys.exit(INTERRUPTED)
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
