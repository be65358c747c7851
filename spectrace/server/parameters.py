"""Parameters that routes have in common, as FastAPI checks them."""

from __future__ import annotations

from typing import Annotated

from fastapi import HTTPException, Path, Query

from spectrace.server.hub import Hub

INT64 = (1 << 63) - 1
_MOST_NAME = 64

RunId = Annotated[str, Path(max_length=_MOST_NAME)]
Group = Annotated[str, Query(max_length=_MOST_NAME)]
Number = Annotated[int, Path(ge=0, le=INT64)]


def check_run(hub: Hub, run_id: str) -> None:
    """Refuses a run that is not there.

    Raises:
        HTTPException: There is none. Status 404.
    """
    if not hub.knows(run_id):
        raise HTTPException(404, "There is no such run: /api/state lists those that there are.")


def no_cycle(number: int) -> HTTPException:
    """What is answered where a cycle is not there."""
    return HTTPException(404, f"Cycle {number} is not here, or not any more.")
