"""The way into the command `spectrace`: quiet at Ctrl-C from its first moment to its last."""

from __future__ import annotations

import os
import signal
import sys

from spectrace.cli.stopping import SIGNALS

_INTERRUPTED = 130


def main() -> None:
    """Imports the commands, runs one, and lets nothing disturb the end of the process."""
    hears = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if hears:  # a KeyboardInterrupt would be a traceback from amid some library's import
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    from spectrace.cli.main import main as run  # noqa: PLC0415 - takes half a second

    try:
        if hears:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
