"""Times every speculative decode cycle of a running SGLang server, without making it wait."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as type checkers know it: the first thing of a command that Ctrl-C can hit
if TYPE_CHECKING:  # a traced loop imports this package, and nothing of the store with it
    from spectrace.store.opened import OpenRecording

__version__ = "0.1.0"


def open(path: str | os.PathLike[str]) -> OpenRecording:  # noqa: A001 - as in `spectrace.open(FILE)`
    """Opens a recorded run: its cycles, ranks, phases, requests and spans as Arrow tables.

    Args:
        path: A file that `spectrace record` or `spectrace import` wrote, or the directory of a
            store whose owner has ended.

    Raises:
        SpectraceError: There is no such recording, it is in use, damaged, or none of
            spectrace's.
    """
    from spectrace.store.opened import OpenRecording  # noqa: PLC0415 - see above

    return OpenRecording(path)
