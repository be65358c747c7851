"""What stored cycles show is told of whatever a sender sends."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

from hypothesis import given, settings
from starlette.datastructures import QueryParams

from spectrace.model import Cycle
from spectrace.server.distributions import Distributions
from spectrace.server.one_reader import OneReader
from spectrace.server.overviews import Overviews
from spectrace.server.served import served_history, served_page
from spectrace.store.recording import open_recording
from tests.helpers.recorded import record, run_of
from tests.unit.test_report_of_anything import cycles

RUN = run_of().run_id


@settings(max_examples=30)
@given(cycles())
def test_whatever_is_sent_can_be_looked_at(sent: list[Cycle]) -> None:
    """Of every kind there are bars and lists, and of every request its cycles."""
    with tempfile.TemporaryDirectory() as folder:
        path = record(Path(folder) / "run.spectrace", sent, run_of(1))
        with closing(open_recording(path)) as store:
            looks = Distributions(store, OneReader())
            for kind in {cycle.kind.value for cycle in sent}:
                query = f"kind={kind}"
                assert looks.answer(RUN, QueryParams(query))
                for phase in ("cycle", "gap", "verify", "draft"):
                    for lane in ("host", "device"):
                        assert looks.bar(RUN, QueryParams(f"{query}&phase={phase}&lane={lane}"))
            assert Overviews(store, OneReader()).answer(RUN, QueryParams("columns=7"))
            assert served_page(store, RUN, QueryParams())
            for request in store.served_requests(RUN, "", None, 5):
                assert served_history(store, RUN, QueryParams({"id": request.request_id}))
