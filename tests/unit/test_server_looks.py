"""What the API says of stored cycles: how they are spread, what a bar holds, whom they served."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from spectrace.chosen import Choice, Chosen
from spectrace.model import RequestRow
from spectrace.server.hub import Hub
from spectrace.server.one_reader import MOST_WAITING
from spectrace.server.run import PageServer
from spectrace.store.recording import Recording, open_recording
from tests.helpers.founding_story import FIVE, TWO, WARM_UP, recording
from tests.helpers.page import until
from tests.helpers.picked import forward
from tests.helpers.recorded import record, run_of

RUN = run_of().run_id


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the run in the API of a server that shows the founding story."""
    path = recording(tmp_path_factory.mktemp("story") / "run.spectrace")
    with closing(open_recording(path)) as store, PageServer(Hub(store), port=0) as server:
        yield f"{server.url}/api/runs/{RUN}"


def get(address: str, **parameters: Any) -> Any:
    """The JSON that is answered."""
    answer = httpx.get(address, params=parameters, timeout=30)
    assert answer.status_code == 200
    return answer.json()


def test_the_story_is_spread_as_it_was_told(api: str) -> None:
    """At 5 steps half of the cycles take 29.9 ms or less; a third of them a hundredth more."""
    found = get(f"{api}/distribution", steps=5)
    assert found["groups"] == [""]
    assert found["seen"]["steps"] == {"2": TWO, "5": FIVE}
    assert found["seen"]["kinds"] == {"speculative": FIVE + TWO, "decode": 200}
    assert (found["stored"], found["warm_up"], found["cycles"]) == (1510, WARM_UP, FIVE)
    (cycle,) = found["phases"][0]["lanes"]
    assert (cycle["p50_ns"], cycle["most_ns"], cycle["least_ns"]) == (29.9e6, 30.199e6, 29.601e6)
    names = [phase["name"] for phase in found["phases"]]
    assert names == ["cycle", "draft", "verify", "verify.forward", "draft_extend", "gap"]
    gap = found["phases"][-1]["lanes"][0]
    assert (gap["lane"], gap["p50_ns"]) == ("device", 0.42e6)
    (accepted,) = found["acceptance"]
    reached = [(one["reached"], one["accepted"]) for one in accepted["positions"]]
    assert reached == [(1000, 600), (600, 400), (400, 100), (100, 0)]
    assert found["slowest"][0]["took_ns"] == 30_199_000


def test_a_bar_has_its_cycles_page_by_page(api: str) -> None:
    """All cycles of five steps that verify took longest in, in pages of 150."""
    bar = {"steps": 5, "phase": "verify.forward", "lane": "device", "from_ns": 28_900_000}
    numbers: list[int] = []
    before: dict[str, int] = {}
    while True:
        page = get(f"{api}/distribution/cycles", **bar, **before, limit=150)
        numbers += [cycle["n"] for cycle in page["cycles"]]
        assert all(cycle["value_ns"] == 28_966_800 for cycle in page["cycles"])
        if page["before"] is None:
            break
        before = {"before": page["before"]}
    # Each third window of 25 cycles is slow, and the first ten cycles are warm-up.
    slow = [n for n in range(WARM_UP, WARM_UP + FIVE) if n // 25 % 3 == 2]
    assert numbers == slow[::-1]
    assert page["total"] == len(slow)


def test_requests_come_in_pages_and_lead_to_cycles(api: str) -> None:
    """Sixteen requests, of which each had a hundred cycles in a row."""
    ids: list[str] = []
    before: dict[str, Any] = {}
    while True:
        page = get(f"{api}/requests", limit=7, **before)
        ids += [one["id"] for one in page["requests"]]
        if page["before"] is None:
            break
        before = dict(zip(("before_n", "before_id"), page["before"], strict=True))
    assert ids == [f"request-{place}" for place in range(15, -1, -1)]
    found = get(f"{api}/request", id="request-9", limit=30)
    assert (found["request"]["first_n"], found["request"]["last_n"]) == (900, 999)
    assert found["request"]["cycles"] == found["request"]["verifies"] == 100
    assert [row[0] for row in found["cycles"]] == list(range(999, 969, -1))
    rest = get(f"{api}/request", id="request-9", before=found["before"], limit=5000)
    assert [row[0] for row in rest["cycles"]] == list(range(969, 899, -1))
    assert rest["before"] is None
    correct = sum(row[5] for row in found["cycles"] + rest["cycles"])
    assert found["request"]["correct"] == correct


@pytest.mark.parametrize(
    "path",
    [
        "distribution?steps=five",
        "distribution?steps=-1",
        "distribution?steps=%D9%A5",  # a digit, and none of ours
        "distribution?batch=99999999999999999999",
        "distribution?kind=Speculative",
        "distribution?mode=",
        "distribution?last_s=0",
        "distribution?last_s=nan",
        "distribution?last_s=1e400",
        f"distribution?rank={'x' * 65}",
        "distribution?steps=1&steps=2",
        "distribution?where=1%3D1",
        f"distribution?{'y' * 5000}=1",
        "distribution/cycles",
        "distribution/cycles?phase=draft",
        "distribution/cycles?phase=draft&lane=gpu",
        "distribution/cycles?phase=draft&lane=host&limit=0",
        "distribution/cycles?phase=draft&lane=host&limit=201",
        "distribution/cycles?phase=draft&lane=host&from_ns=1.5",
        "requests?limit=501",
        "requests?before_n=5",
        "requests?before_id=a",
        "request",
        "request?id=a&before=soon",
        f"request?id={'x' * 257}",
    ],
)
def test_a_parameter_that_is_wrong_is_one_sentence(api: str, path: str) -> None:
    """Status 400, and what is wrong and would be right, in less than 300 characters."""
    answer = httpx.get(f"{api}/{path}")
    assert answer.status_code == 400
    sentence = answer.json()["detail"]
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 300


@pytest.mark.parametrize("path", ["distribution", "distribution/cycles", "requests", "request"])
def test_a_run_that_is_not_here_is_not_found(api: str, path: str) -> None:
    """Whatever its name: nothing of it reaches the store."""
    for run in ("b" * 32, "x" * 10_000, "';DROP TABLE cycles;--"):
        assert httpx.get(f"{api.replace(RUN, run)}/{path}").status_code == 404


def test_what_is_not_there_is_empty(api: str) -> None:
    """No group, no rank, no phase and no request of that name."""
    for parameters in ({"group": "DP7"}, {"rank": "TP7"}, {"batch": 4}):
        found = get(f"{api}/distribution", **parameters)
        assert (found["cycles"], found["phases"], found["acceptance"]) == (0, [], [])
    nothing = get(f"{api}/distribution/cycles", phase="' OR 1=1", lane="host")
    assert nothing == {"total": 0, "cycles": [], "before": None}
    nobody = {"groups": [""], "requests": [], "before": None}
    assert get(f"{api}/requests", group="DP7") == nobody
    assert httpx.get(f"{api}/request", params={"id": "nobody"}).status_code == 404


def test_few_may_wait_and_one_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one reads some wait, and who comes then is told to ask again."""
    path = recording(tmp_path / "run.spectrace", with_plain=False)
    go_on = threading.Event()
    reading: list[Choice] = []
    most_at_once: list[int] = []

    def slow(store: Recording, choice: Choice) -> Chosen:
        reading.append(choice)
        most_at_once.append(len(reading))
        assert go_on.wait(30)
        reading.remove(choice)
        return whole(store, choice)

    whole = Recording.chosen
    monkeypatch.setattr(Recording, "chosen", slow)
    with closing(open_recording(path)) as store, PageServer(Hub(store), port=0) as server:
        address = f"{server.url}/api/runs/{RUN}/distribution"
        answers: list[int] = []

        def ask() -> None:
            answers.append(httpx.get(address, timeout=30).status_code)

        threads = [threading.Thread(target=ask) for _ in range(MOST_WAITING + 3)]
        for thread in threads:
            thread.start()
        until(lambda: answers.count(503) == 3)
        go_on.set()
        for thread in threads:
            thread.join(30)
    assert sorted(answers) == [200] * MOST_WAITING + [503] * 3
    assert set(most_at_once) == {1}


def test_two_runs_are_held_against_each_other(tmp_path: Path) -> None:
    """Cycles that are one millisecond longer are said to be; a run does not differ from itself."""
    before, after = (
        run_of(1),
        msgspec.structs.replace(
            run_of(1), run_id="f" * 32, command=("python", "--tp-size", "2", "--api-key", "secret")
        ),
    )
    path = record(
        tmp_path / "runs.spectrace",
        (
            forward(n, took_ns + n % 7 * 1000, run_id=run.run_id, correct=[n % 3])
            for run, took_ns in ((before, 20_000_000), (after, 21_000_000))
            for n in range(400)
        ),
        [before, after],
    )
    with closing(open_recording(path)) as store, PageServer(Hub(store), port=0) as server:
        address = f"{server.url}/api/compare"
        found = get(address, one=before.run_id, other=after.run_id)
        same = get(address, one=after.run_id, other=after.run_id)
        for parameters in ({}, {"one": RUN}, {"one": RUN, "other": "x" * 65}):
            assert httpx.get(address, params=parameters).status_code == 400
        assert httpx.get(address, params={"one": RUN, "other": "0" * 32}).status_code == 404
    assert found["run_ids"] == [before.run_id, after.run_id]
    cycle = found["comparison"]["cycle_ms"]
    assert cycle["excess"]["value"] == pytest.approx(1.0, abs=1e-6)
    assert (cycle["verdict"], same["comparison"]["cycle_ms"]["verdict"]) == ("differs", "same")
    assert ["--tp-size", "not given", "2"] in [list(one.values()) for one in found["settings"]]
    assert "secret" not in str(found)


def test_an_answer_is_bounded_whatever_was_stored(tmp_path: Path) -> None:
    """Endless names, and of everything as many values as cycles: less than 300 kB, at once."""
    cycles = [
        msgspec.structs.replace(
            forward(n, 5_000_000 + n, batch_size=n + 1, steps=n % 900, draft_tokens=n % 900 + 1),
            group="" if n % 2 else "g" * 5000,
            requests=tuple(
                RequestRow(request_id="r" * 5000, correct_drafts=n % 900, output_tokens=n % 900)
                for _ in range(3)
            ),
        )
        for n in range(2000)
    ]
    ranks = [msgspec.structs.replace(one.ranks[0], rank="n" * 5000) for one in cycles]
    named = [
        msgspec.structs.replace(one, ranks=(rank,)) for one, rank in zip(cycles, ranks, strict=True)
    ]
    path = record(tmp_path / "odd.spectrace", named, run_of(1))
    with closing(open_recording(path)) as store, PageServer(Hub(store), port=0) as server:
        for path_of in ("distribution", "requests"):
            answer = httpx.get(f"{server.url}/api/runs/{RUN}/{path_of}", timeout=60)
            assert answer.status_code == 200
            assert len(answer.content) < 300_000
        found = get(f"{server.url}/api/runs/{RUN}/distribution")
    assert found["groups"] == [""]
    assert found["seen"]["ranks"] == ["n" * 64]
    assert len(found["seen"]["batches"]) == 200
    assert len(found["acceptance"]) == 20
