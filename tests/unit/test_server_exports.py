"""What a page has made into files: the same as the command writes, refused in sentences, gone."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from spectrace.errors import SpectraceError
from spectrace.server.exports import Exports, Stage
from spectrace.server.hub import Hub
from spectrace.server.run import PageServer
from spectrace.server.token import Token
from spectrace.store.extract import Extract
from spectrace.store.formats import file_formats
from spectrace.store.recording import open_recording
from spectrace.store.source import Cut
from spectrace.store.store import CycleStore
from tests.helpers.command import TIMEOUT_S, run
from tests.helpers.looked import rows_of, seen_at
from tests.helpers.recorded import CYCLE_NS, T0_NS, cycle_of, run_of

RUN = run_of().run_id
COUNT = 60
LOOK = seen_at({number: cycle_of(number).start_ns for number in range(25, 35)}, ["TP0", "TP1"])
NAME = "node-20231114-221320"  # T0_NS is 1,700,000,000 s, 22:13:20 UTC on that day


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CycleStore]:
    """A run of 60 cycles on two ranks, at ten of which somebody looked."""
    directory = tmp_path_factory.mktemp("exports") / "store"
    with closing(CycleStore(directory, retain_s=1e9, max_bytes=10**9)) as kept:
        kept.put_run(run_of())
        kept.add(cycle_of(number, ranks=2) for number in range(COUNT))
        kept.add_look(RUN, LOOK)
        yield kept


@pytest.fixture(scope="module")
def url(store: CycleStore) -> Iterator[str]:
    """The address of its page."""
    hub = Hub(store, sink=store)
    hub.refresh()
    with PageServer(hub, port=0) as server:
        yield server.url


def ask(url: str, wish: object, run_id: str = RUN) -> httpx.Response:
    """Asks for an export as the page does."""
    return httpx.post(f"{url}/api/runs/{run_id}/exports", json=wish, timeout=TIMEOUT_S)


def made(url: str, wish: object) -> dict[str, Any]:
    """Asks, and waits until it is made or has failed."""
    answer = ask(url, wish)
    assert answer.status_code == 202, answer.text
    state: dict[str, Any] = answer.json()
    end_s = time.monotonic() + TIMEOUT_S
    while state["stage"] == "making":
        assert time.monotonic() < end_s
        time.sleep(0.05)
        state = httpx.get(f"{url}/api/exports/{state['id']}").json()
    return state


def saved(url: str, wish: object) -> tuple[str, bytes]:
    """The file that a browser gets, and under which name."""
    state = made(url, wish)
    assert state["stage"] == "ready", state
    answer = httpx.get(f"{url}/api/exports/{state['id']}/file")
    answer.raise_for_status()
    assert answer.headers["content-disposition"] == f'attachment; filename="{state["name"]}"'
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert state["bytes"] == len(answer.content)
    return state["name"], answer.content


def test_a_run_is_saved_as_a_recording(url: str, tmp_path: Path) -> None:
    """The file is one that every command opens, with all cycles of the run."""
    name, content = saved(url, {"format": "spectrace"})
    assert name == f"{NAME}.spectrace"
    (tmp_path / name).write_bytes(content)
    with closing(Extract(tmp_path / name)) as extract:
        assert [cycle.number for cycle in extract.cycles()] == list(range(COUNT))


def test_a_stretch_of_time_is_saved_alone(url: str, tmp_path: Path) -> None:
    """Cycles 20 to 29 and the end of cycle 19 on rank 1, which ends 1 ns after rank 0."""
    first_ns, last_ns = T0_NS + 20 * CYCLE_NS, T0_NS + 30 * CYCLE_NS
    _, content = saved(
        url, {"format": "spectrace", "from_ns": str(first_ns + 1), "to_ns": str(last_ns)}
    )
    (tmp_path / "part").write_bytes(content)
    with closing(Extract(tmp_path / "part")) as extract:
        assert [cycle.number for cycle in extract.cycles()] == list(range(20, 30))


def test_kernels_are_saved_with_their_cycles(url: str, tmp_path: Path) -> None:
    """Of a look at cycles 25 to 34 those of 25 to 29, where the stretch ends with cycle 29."""
    last_ns = T0_NS + 30 * CYCLE_NS
    _, content = saved(url, {"format": "spectrace", "to_ns": str(last_ns)})
    (tmp_path / "part").write_bytes(content)
    with closing(open_recording(tmp_path / "part")) as recording:
        assert recording.looks(RUN) == [LOOK.look]
        found = [rows_of(recording.kernels(RUN, "", number)) for number in range(30)]
    every = rows_of(LOOK.kernels)
    assert found == [[row for row in every if row[2] == number] for number in range(30)]
    assert [len(rows) for rows in found] == [0] * 25 + [8] * 5


def test_another_format_is_what_the_command_writes(
    url: str, store: CycleStore, tmp_path: Path
) -> None:
    """Byte for byte what `spectrace export` makes of the same run."""
    store.save(tmp_path / "run.spectrace")
    assert run("export", str(tmp_path / "run.spectrace"), "--to", "chrome").returncode == 0
    name, content = saved(url, {"format": "chrome"})
    assert name == f"{NAME}.chrome.json"
    assert content == (tmp_path / "run.chrome.json").read_bytes()
    assert sum(event["name"] == "verify.forward" for event in begun(content)) == 2 * 2 * COUNT


def begun(content: bytes) -> list[dict[str, Any]]:
    """The slices of a Chrome trace: of each the event with which it begins."""
    return [event for event in json.loads(content)["traceEvents"] if event["ph"] == "B"]


def test_a_folder_is_saved_as_one_file(url: str) -> None:
    """The tables as CSV come as a zip with the folder in it."""
    name, content = saved(url, {"format": "csv"})
    assert name == f"{NAME}.csv.zip"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        cycles = archive.read(f"{NAME}.csv/cycles.csv").decode().splitlines()
        kernels = archive.read(f"{NAME}.csv/kernels.csv").decode().splitlines()
    assert len(cycles) == 1 + COUNT
    assert len(kernels) == 1 + len(rows_of(LOOK.kernels))


def test_every_format_can_be_asked_for(url: str) -> None:
    """The page is told of those that the command knows, and of the recording itself."""
    found = httpx.get(f"{url}/api/exports").json()["formats"]
    assert found == ["spectrace", *file_formats()]
    assert {"perfetto", "chrome", "jaeger", "otlp", "parquet", "csv"} <= set(found)


@pytest.mark.parametrize(
    ("wish", "run_id", "status", "why"),
    [
        ({"format": "floppy"}, RUN, 409, "choose one of spectrace, chrome"),
        ({"format": "csv"}, "nobody", 404, "no such run"),
        ({"format": "csv", "path": "/etc"}, RUN, 400, "path"),
        ({"format": "csv", "from_ns": "soon"}, RUN, 400, "from_ns"),
        ({"format": "csv", "from_ns": 5}, RUN, 400, "from_ns"),
        ({"format": "csv", "from_ns": "9" * 19}, RUN, 400, "from_ns"),
        ({"format": "csv", "from_ns": "7", "to_ns": "7"}, RUN, 400, "ends before it begins"),
        ([], RUN, 400, "format"),
    ],
)
def test_what_cannot_be_made_is_refused(
    url: str, wish: object, run_id: str, status: int, why: str
) -> None:
    """In a sentence, before anything is done."""
    answer = ask(url, wish, run_id)
    assert answer.status_code == status
    assert why in answer.json()["detail"]


def test_where_nothing_lies_it_is_said(url: str) -> None:
    """The export fails with a sentence, and the next one works."""
    state = made(url, {"format": "spectrace", "to_ns": "1000"})
    assert state["stage"] == "failed"
    assert "No stored cycle lies there" in state["problem"]
    assert made(url, {"format": "spectrace"})["stage"] == "ready"


def test_one_that_was_dropped_is_gone(url: str, store: CycleStore) -> None:
    """Its file, too; nobody can name one that was never asked for."""
    state = made(url, {"format": "spectrace"})
    assert httpx.delete(f"{url}/api/exports/{state['id']}").status_code == 204
    for id_ in (state["id"], "guessed"):
        for what in ("", "/file"):
            answer = httpx.get(f"{url}/api/exports/{id_}{what}")
            assert answer.status_code == 404
            assert "ask for it again" in answer.json()["detail"]
    wait_until_empty(store)


def wait_until_empty(store: CycleStore) -> None:
    """Waits until no export lies in the directory of a store any more."""
    end_s = time.monotonic() + TIMEOUT_S
    while list(store._scratch().glob("saving-*")):
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_a_form_of_a_foreign_page_makes_nothing(url: str) -> None:
    """It can send no JSON, and a script of it is told apart by its origin."""
    path = f"{url}/api/runs/{RUN}/exports"
    assert httpx.post(path, data={"format": "csv"}).status_code == 415
    foreign = {"origin": "http://evil.example"}
    assert httpx.post(path, json={"format": "csv"}, headers=foreign).status_code == 403


def test_who_shows_the_token_may_export(store: CycleStore) -> None:
    """Without it nothing is answered, whoever asks."""
    token = Token("correct-horse-battery-staple")
    with PageServer(Hub(store, sink=store), port=0, token=token) as server:
        path = f"{server.url}/api/runs/{RUN}/exports"
        shown = {"authorization": f"Bearer {token.text}"}
        assert httpx.post(path, json={"format": "spectrace"}).status_code == 401
        assert httpx.post(path, json={"format": "spectrace"}, headers=shown).status_code == 202


def test_a_second_one_waits_for_the_first(store: CycleStore) -> None:
    """It is refused while one is made; closing ends that one and leaves nothing."""
    exports = Exports(store)
    exports.start("one", "jaeger", Cut(run_id=RUN))
    with pytest.raises(SpectraceError, match="wait for it, or cancel it"):
        exports.start("two", "csv", Cut(run_id=RUN))
    exports.close()
    assert not list(store._scratch().glob("saving-*"))
    with pytest.raises(SpectraceError, match="closing"):
        exports.start("three", "csv", Cut(run_id=RUN))


def test_one_that_was_dropped_gives_way(store: CycleStore) -> None:
    """Whoever cancels and asks anew gets the new one, whole, however fast."""
    exports = Exports(store)
    for _ in range(4):
        id_ = exports.start("one", "spectrace", Cut(run_id=RUN)).id
        exports.drop(id_)
    last = exports.start("two", "spectrace", Cut(run_id=RUN)).id
    end_s = time.monotonic() + TIMEOUT_S
    while (state := exports.state(last)) is not None and state.stage is Stage.MAKING:
        assert time.monotonic() < end_s
        time.sleep(0.02)
    assert state is not None
    assert (state.stage, state.problem) == (Stage.READY, "")
    assert exports.state(id_) is None
    exports.close()
    assert not list(store._scratch().glob("saving-*"))


def test_the_disk_is_never_filled(store: CycleStore) -> None:
    """An export ends in a sentence where too little would stay free for the store."""
    exports = Exports(store, least_free_bytes=1 << 60)
    id_ = exports.start("one", "spectrace", Cut(run_id=RUN)).id
    end_s = time.monotonic() + TIMEOUT_S
    while (state := exports.state(id_)) is not None and state.stage is Stage.MAKING:
        assert time.monotonic() < end_s
        time.sleep(0.02)
    assert state is not None
    assert state.stage is Stage.FAILED
    assert "nearly full" in state.problem
    exports.close()
    assert not list(store._scratch().glob("saving-*"))


def test_a_file_that_nobody_saves_goes(store: CycleStore) -> None:
    """After its time it is not here any more."""
    exports = Exports(store, kept_s=0.0)
    id_ = exports.start("one", "spectrace", Cut(run_id=RUN)).id
    end_s = time.monotonic() + TIMEOUT_S
    while exports.state(id_) is not None:
        assert time.monotonic() < end_s
        time.sleep(0.02)
    exports.close()
    assert not list(store._scratch().glob("saving-*"))


def test_what_the_command_leaves_out_is_told(tmp_path: Path) -> None:
    """A rank that ends before it begins is in no trace; the page says how many are not."""
    odd = cycle_of(1, ranks=2)
    bad = msgspec.structs.replace(odd.ranks[1], end_ns=odd.ranks[1].start_ns - 1)
    with closing(CycleStore(tmp_path / "store", retain_s=1e9, max_bytes=10**9)) as kept:
        kept.put_run(run_of())
        kept.add([msgspec.structs.replace(odd, ranks=(odd.ranks[0], bad))])
        with PageServer(Hub(kept, sink=kept), port=0) as server:
            state = made(server.url, {"format": "chrome"})
    assert state["stage"] == "ready"
    assert state["note"].startswith("Slices left out")
    assert state["note"].endswith(" 1.")
