"""What a page has recorded: what comes from then on, into a file that replaces nothing."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from spectrace.errors import SpectraceError
from spectrace.server.hub import Hub
from spectrace.server.open import open_page, open_page_of_recording
from spectrace.server.recorder import Recorder
from spectrace.server.state import Life, Source
from spectrace.store.extract import Extract
from spectrace.store.recording import open_recording
from tests.helpers.command import TIMEOUT_S
from tests.helpers.looked import rows_of, seen_at
from tests.helpers.page import until
from tests.helpers.recorded import cycle_of, other_span, run_of

RUN = run_of().run_id
GB = 10**9


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where spectrace runs."""
    path = tmp_path / "here"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@contextmanager
def page() -> Iterator[tuple[Hub, Callable[..., httpx.Response]]]:
    """A page with cycles 0 to 9 of a run that is traced, and what asks it as the page does."""
    with open_page(retain_s=GB, max_bytes=GB, port=0) as (hub, server):
        hub.put_run(run_of(), Source.ATTACHED)
        feed(hub, range(10))

        def ask(what: str = "", run_id: str = RUN, **wish: object) -> httpx.Response:
            return httpx.post(
                f"{server.url}/api/runs/{run_id}/recording{what}", json=wish, timeout=TIMEOUT_S
            )

        yield hub, ask


def feed(hub: Hub, numbers: range) -> None:
    """Cycles come, and are passed on."""
    hub.feed(cycle_of(number, ranks=2) for number in numbers)
    until(lambda: any(cycle.number == numbers[-1] for cycle in hub.store.cycles(RUN)))


def numbers_of(path: Path) -> list[int]:
    """The cycles of a recording."""
    with closing(Extract(path)) as extract:
        assert [run.run_id for run in extract.runs] == [RUN]
        return [cycle.number for cycle in extract.cycles()]


def test_what_comes_from_then_on_is_recorded(folder: Path) -> None:
    """Not what came before, nor after the end; the file is its owner's alone."""
    with page() as (hub, ask):
        begun = ask(name="mine", max_bytes=GB)
        assert begun.status_code == 200, begun.text
        assert begun.json()["name"] == "mine.spectrace"
        feed(hub, range(10, 30))
        until(lambda: told(hub)["cycles"] == 20)
        assert told(hub)["active"]
        ended = ask("/stop").json()
        feed(hub, range(30, 40))
    path = folder / "mine.spectrace"
    assert list(folder.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert numbers_of(path) == list(range(10, 30))
    assert (ended["active"], ended["cycles"], ended["bytes"]) == (False, 20, path.stat().st_size)
    assert (ended["problem"], ended["lost"], ended["cut"]) == ("", 0, False)


def told(hub: Hub) -> dict[str, Any]:
    """What the page is told of the recording of its run."""
    state = hub.state().runs[0].recording
    assert state is not None
    return {name: getattr(state, name) for name in state.__struct_fields__}


def test_a_run_that_ends_ends_its_recording(folder: Path) -> None:
    """What came last is in the file, and no new recording of that run begins."""
    with page() as (hub, ask):
        ask(name="mine", max_bytes=GB)
        hub.feed(cycle_of(number, ranks=2) for number in range(10, 30))
        hub.end(RUN, Life.SERVER_GONE, "It is gone.")
        until(lambda: not told(hub)["active"])
        assert numbers_of(folder / "mine.spectrace") == list(range(10, 30))
        answer = ask(name="more", max_bytes=GB)
        assert answer.status_code == 409
        assert "Nothing comes from this run any more" in answer.json()["detail"]


def test_a_page_that_closes_saves_what_it_records(folder: Path) -> None:
    """As Ctrl-C at `spectrace record` does; spans of others come along."""
    with page() as (hub, ask):
        ask(name="mine.spectrace", max_bytes=GB)
        hub.feed_spans([other_span(1), other_span(2)])
        feed(hub, range(10, 15))
    assert numbers_of(folder / "mine.spectrace") == list(range(10, 15))
    with closing(Extract(folder / "mine.spectrace")) as extract:
        assert extract.rows("spans") == 2


def test_a_look_at_its_cycles_is_in_the_file(folder: Path) -> None:
    """With its kernels, of the cycles that are recorded: of 8 to 12 those from 10 on."""
    look = seen_at({number: cycle_of(number).start_ns for number in range(8, 13)})
    with page() as (hub, ask):
        hub.recorder.add_look(RUN, look)  # of which nothing is recorded
        ask(name="mine", max_bytes=GB)
        feed(hub, range(10, 15))
        until(lambda: told(hub)["cycles"] == 5)
        hub.recorder.add_look(RUN, look)
        ask("/stop")
    with closing(open_recording(folder / "mine.spectrace")) as recording:
        assert recording.looks(RUN) == [look.look]
        found = {number: recording.kernels(RUN, "", number) for number in range(8, 15)}
    assert [rows_of(found[number]) for number in (8, 9, 13, 14)] == [[]] * 4
    for number in (10, 11, 12):
        of_cycle = [row for row in rows_of(look.kernels) if row[2] == number]
        assert rows_of(found[number]) == of_cycle


def test_without_a_cycle_the_file_is_empty(folder: Path) -> None:
    """As of `spectrace record`: the run is in it, and no cycle."""
    with page() as (_, ask):
        ask(name="mine", max_bytes=GB)
        ended = ask("/stop").json()
    assert (ended["cycles"], ended["problem"]) == (0, "")
    assert numbers_of(folder / "mine.spectrace") == []


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "/etc/x", "a/b", ".hidden", "-f", "a b", "ü", "x" * 81, "a\n", "~"]
)
def test_a_name_leads_nowhere_else(folder: Path, name: str) -> None:
    """What is no plain name is refused, and nothing is made anywhere."""
    with pytest.raises(SpectraceError, match="names no folder"):
        Recorder().start(run_of(), name, GB)
    assert list(folder.parent.rglob("*")) == [folder]


def test_nothing_that_is_there_is_touched(folder: Path) -> None:
    """A file of that name, and a link that leads to none, stay as they are."""
    (folder / "mine.spectrace").write_text("mine")
    (folder / "link.spectrace").symlink_to(folder.parent / "elsewhere")
    with page() as (_, ask):
        for name in ("mine", "mine.spectrace", "link"):
            answer = ask(name=name, max_bytes=GB)
            assert answer.status_code == 409
            assert "is there already" in answer.json()["detail"]
    assert (folder / "mine.spectrace").read_text() == "mine"
    assert not (folder.parent / "elsewhere").exists()


@pytest.mark.parametrize(
    ("wish", "status", "why"),
    [
        ({"name": "a"}, 400, "max_bytes"),
        ({"name": "a", "max_bytes": 999_999}, 400, "out of bounds"),
        ({"name": "a", "max_bytes": 10**12 + 1}, 400, "out of bounds"),
        ({"name": "a", "max_bytes": "1GB"}, 400, "max_bytes"),
        ({"name": "a", "max_bytes": GB, "folder": "/etc"}, 400, "folder"),
        ({"name": "a", "max_bytes": GB, "run_id": "nobody"}, 409, "Nothing comes"),
        ({"name": "a", "max_bytes": 10**12}, 409, "no room"),  # who has 3 TB runs no tests there
        ({"what": "/stop"}, 409, "is not recorded"),
    ],
)
def test_what_cannot_be_recorded_is_refused(
    folder: Path, wish: dict[str, Any], status: int, why: str
) -> None:
    """In a sentence, and nothing is made."""
    with page() as (_, ask):
        answer = ask(**wish)
        assert answer.status_code == status
        assert why in answer.json()["detail"]
        assert list(folder.iterdir()) == []


def test_a_run_is_recorded_once_at_a_time(folder: Path) -> None:
    """A second wish is refused while the first goes on; afterwards another name is fine."""
    with page() as (hub, ask):
        ask(name="one", max_bytes=GB)
        second = ask(name="two", max_bytes=GB)
        assert second.status_code == 409
        assert "recorded already" in second.json()["detail"]
        feed(hub, range(10, 12))
        ask("/stop")
        assert ask(name="two", max_bytes=GB).status_code == 200
        feed(hub, range(12, 15))
    assert numbers_of(folder / "one.spectrace") == [10, 11]
    assert numbers_of(folder / "two.spectrace") == [12, 13, 14]


def test_the_size_is_kept_and_what_went_is_told(tmp_path: Path) -> None:
    """Beyond it the oldest cycles go, and the page is told so."""
    recorder = Recorder(tmp_path)
    recorder.start(run_of(), "small", 1_000_000)
    for first in range(0, 6000, 500):
        recorder.add([cycle_of(number) for number in range(first, first + 500)])
        recorder.refresh()
    state = recorder.stop(RUN)
    assert state.cut
    assert state.lost == 0
    kept = numbers_of(tmp_path / "small.spectrace")
    assert kept == list(range(kept[0], 6000))
    assert kept[0] > 0
    assert state.cycles == len(kept)


def test_a_recording_that_is_looked_at_is_not_recorded(folder: Path) -> None:
    """Nothing comes of it."""
    with page() as (hub, ask):
        ask(name="mine", max_bytes=GB)
        feed(hub, range(10, 12))
    path = folder / "mine.spectrace"
    with open_page_of_recording(path, port=0) as server:
        answer = httpx.post(
            f"{server.url}/api/runs/{RUN}/recording", json={"name": "more", "max_bytes": GB}
        )
    assert answer.status_code == 409
    assert list(folder.iterdir()) == [path]
