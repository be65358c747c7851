"""On a server's path, its ranks are forked and not spawned, so that it starts with half the CPU."""

import multiprocessing

_set_start_method = multiprocessing.set_start_method


def _fork(method: str | None, force: bool = False) -> None:  # noqa: ARG001 - as it is called
    _set_start_method("fork", force=force)


multiprocessing.set_start_method = _fork
