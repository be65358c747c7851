"""Whom spans speak of: the resource of a run, and those of its ranks' lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from spectrace.model import Lane, Run
from spectrace.otlp import names
from spectrace.otlp.shape import Place, Value, as_text, as_texts

_Form = TypeVar("_Form")


class Resources(Generic[_Form]):
    """The resources of a run in the form of one encoding, each made once.

    Args:
        make: Makes a resource from its attributes.
        service: What `service.name` begins with; the lane is added.
        attributes: Resource attributes to add to each. Those of `names` win, and none begins
            with `spectrace.`.
    """

    def __init__(
        self,
        make: Callable[[Mapping[str, Value]], _Form],
        service: str,
        attributes: Mapping[str, Value] | None = None,
    ) -> None:
        self._make = make
        self._service = service
        self._attributes = {
            name: value
            for name, value in (attributes or {}).items()
            if not name.startswith(f"{names.SCOPE}.")
        }
        self._run: Run | None = None
        self._made: dict[Place, _Form] = {}

    def of(self, run: Run, place: Place) -> _Form:
        """The resource of the run, or of one lane of one of its ranks."""
        if run is not self._run:  # more became known of it
            self._run = run
            self._made.clear()
        made = self._made.get(place)
        if made is None:
            attributes = self._of_run(run) if place is None else self._of_rank(run, *place)
            made = self._made[place] = self._make(attributes)
        return made

    def _of_rank(self, run: Run, rank: str, lane: Lane) -> dict[str, Value]:
        pids = [known.pid for known in run.ranks if known.name == rank]
        return {
            **self._common(run, lane, rank),
            **({names.PROCESS_PID: pids[-1]} if pids else {}),
            names.RANK: as_text(rank),
            names.LANE: lane.value,
        }

    def _of_run(self, run: Run) -> dict[str, Value]:
        """Everything that is known of the run."""
        return {
            **self._common(run, Lane.HOST),
            names.PROCESS_PID: run.server_pid,
            names.PROCESS_COMMAND_ARGS: as_texts(run.command),
            names.ENGINE: as_text(run.engine),
            names.ANCHOR_UNIX_NS: run.anchor_unix_ns,
            names.ANCHOR_MONOTONIC_NS: run.anchor_monotonic_ns,
            names.RUN_RANKS: as_texts([rank.name for rank in run.ranks]),
            names.RUN_RANK_PIDS: [rank.pid for rank in run.ranks],
            **self._rank_hosts(run),
        }

    @staticmethod
    def _rank_hosts(run: Run) -> dict[str, Value]:
        hosts = [rank.host for rank in run.ranks]
        return {names.RUN_RANK_HOSTS: as_texts(hosts)} if any(hosts) else {}

    def _common(self, run: Run, lane: Lane, *place: str) -> dict[str, Value]:
        instance = "/".join((run.host, run.run_id, *place))
        return {
            **self._attributes,
            names.SERVICE_NAME: f"{self._service}-{lane.value}",
            names.SERVICE_INSTANCE_ID: as_text(instance),
            names.HOST_NAME: as_text(run.host),
            names.RUN_ID: run.run_id,
        }
