"""Answers which of two stored runs is faster, and which phase makes it so."""

from __future__ import annotations

import msgspec
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from spectrace.analysis.run_comparison import RunComparison, compare_runs
from spectrace.analysis.run_report import without_secrets
from spectrace.analysis.run_settings import SettingDifference, setting_differences
from spectrace.errors import SpectraceError
from spectrace.server.asked import Asked
from spectrace.server.hub import Hub
from spectrace.server.one_reader import OneReader


class WireComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs held against each other, as the page gets it.

    Attributes:
        run_ids: The runs, the first one first.
        engines: Such as `sglang 0.5.23`.
        settings: What differs in how the servers were started.
        comparison: What was found.
    """

    run_ids: tuple[str, str]
    engines: tuple[str, str]
    settings: tuple[SettingDifference, ...]
    comparison: RunComparison


class Comparisons:
    """Holds runs of a hub against each other; methods may be called from any thread.

    Args:
        hub: Which runs there are, and where they are stored.
        reader: Who else reads from the store.
    """

    def __init__(self, hub: Hub, reader: OneReader) -> None:
        self._hub = hub
        self._reader = reader

    def answer(self, parameters: QueryParams) -> bytes:
        """The JSON of a `WireComparison`.

        Raises:
            HTTPException: A parameter is wrong (400), a run is not here or has nothing to compare
                (404), or too many ask at once (503).
        """
        asked = Asked(parameters, ("one", "other"))
        run_ids = asked.text("one"), asked.text("other")
        if None in run_ids:
            raise HTTPException(400, "Say which runs: one and other are needed.")
        for run_id in run_ids:
            if not self._hub.knows(run_id or ""):
                raise HTTPException(
                    404, "There is no such run: /api/state lists those that there are."
                )
        with self._reader.turn():
            try:
                one, other = (self._hub.store.measure(run_id or "") for run_id in run_ids)
            except SpectraceError as error:
                raise HTTPException(404, str(error)) from error
        first, second = without_secrets(one.run), without_secrets(other.run)
        return msgspec.json.encode(
            WireComparison(
                run_ids=(first.run_id, second.run_id),
                engines=(first.engine, second.engine),
                settings=setting_differences(first, second),
                comparison=compare_runs(one, other),
            )
        )
