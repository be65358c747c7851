"""The way into the command `spectrace`: a line at Ctrl-C from its first moment to its last."""

from __future__ import annotations

import sys

from spectrace.cli.unbegun import INTERRUPTED, leave

try:  # on a busy machine these alone take a tenth of a second
    import signal

    from spectrace.cli.stopping import SIGNALS, gone_at_ctrl_c
except KeyboardInterrupt:
    leave()


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
