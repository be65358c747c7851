"""`spectrace report` and `spectrace predict`: what they write, of recordings of known content."""

from __future__ import annotations

import json
import socket
import xml.etree.ElementTree as ET
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from spectrace.analysis.run_report import report
from spectrace.cli.main import app
from spectrace.cli.run_words import sentences
from spectrace.errors import SpectraceError
from spectrace.kernels import Seen
from spectrace.model import Cycle, CycleKind, PhaseName, RequestRow
from spectrace.server.open import open_page_of_recording
from spectrace.store.store import CycleStore
from tests.helpers import long_recording
from tests.helpers.kineto_trace import TURN_US, newest, turns
from tests.helpers.known_look import look
from tests.helpers.recorded import CYCLE_NS, cycle_of, record, run_of
from tests.helpers.simulated_run import Stretch, Truth, simulated

FIRST = 10  # behind ten of warm-up


def plain(number: int) -> Cycle:
    """A plain decode that took half as long."""
    cycle = cycle_of(number, 1)
    [rank] = cycle.ranks
    end_ns = rank.start_ns + CYCLE_NS // 2
    phase = replace(rank.phases[0], name=PhaseName.FORWARD, end_ns=end_ns)
    return replace(
        cycle,
        kind=CycleKind.DECODE,
        steps=0,
        topk=0,
        draft_tokens=0,
        ranks=(replace(rank, phases=(phase,), end_ns=end_ns),),
        requests=tuple(
            RequestRow(request_id=f"r{row}", correct_drafts=None, output_tokens=1) for row in (2, 3)
        ),
    )


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 speculative cycles of 10 ms and 3.5 tokens, 100 plain ones of 5 ms."""
    cycles = [cycle_of(number, 1) for number in range(FIRST + 200)]
    cycles += [plain(number) for number in range(FIRST + 200, FIRST + 300)]
    command = ("python", "-m", "sglang.launch_server", "--api-key", "s3cr3t|<b>")
    run = replace(run_of(1), command=command)
    return record(tmp_path_factory.mktemp("report") / "run.spectrace", cycles, run)


def test_slow_cycles_that_move_the_mean_are_named() -> None:
    """30 % at 4 times 15.9 ms: a mean of 30.2 ms, of which the slowest tenth takes 21 %."""
    truth = Truth(verify_ms=lambda _tokens, _batch: 12.4, noise=0.0, slow_speculative=0.3)
    found = sentences(report(simulated((Stretch(20_000, 5), Stretch(500, 0)), truth)))
    [tail] = [one for one in found if "in the mean" in one]
    assert tail.startswith("A cycle of 5 steps takes 30.")
    assert "and 15.9 ms at the median" in tail
    assert tail.endswith("the slowest 10 % of those sampled take 21 % of their time.")
    even = sentences(report(simulated((Stretch(500, 5), Stretch(500, 0)))))
    assert not any("in the mean" in one for one in even)


def said(*arguments: object) -> str:
    """What a command writes."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_json_has_the_verdict(recording: Path) -> None:
    """3.5 tokens in the time of two plain decodes: 1.75 times as fast."""
    found = json.loads(said("report", recording, "--json"))
    assert found["verdict"]["answer"] == "pays"
    assert found["verdict"]["speed_up"]["value"] == pytest.approx(1.75, rel=0.001)
    [main] = found["verdict"]["by_batch"]
    assert main["break_even"]["value"] == pytest.approx(2.0, rel=0.001)
    assert main["tokens_per_cycle"]["value"] == pytest.approx(3.5)
    assert found["cycles_by_kind"] == {"speculative": 200, "decode": 100}
    assert found["sentences"][0].startswith("Speculation pays: 1.75")


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of 210 cycles with one look at their kernels."""
    cycles = [cycle_of(number, 1) for number in range(FIRST + 200)]
    path = tmp_path_factory.mktemp("looked") / "run.spectrace"
    return record(path, cycles, run_of(1), looks=[Seen(look(), [])])


def test_a_look_at_kernels_is_in_the_report(
    looked_at: Path, recording: Path, tmp_path: Path
) -> None:
    """In the terminal, as JSON and on the page, and nothing of it in a run without one."""
    what = "What a phase is made of, TP0, per cycle"
    made = "17.2 ms are matrix products"
    text = " ".join(said("report", looked_at).split())
    assert what in text
    assert made in text
    found = json.loads(said("report", looked_at, "--json"))["made_of"]
    assert (found["rank"], found["looks"], found["source"]) == ("TP0", 1, "window")
    assert found["phases"][0]["gap_ms"] == pytest.approx(2.0)
    said("report", looked_at, "--html", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert what in page
    assert made in page
    assert "made of, TP0" not in said("report", recording)
    assert json.loads(said("report", recording, "--json"))["made_of"] is None


def test_a_page_gives_the_same_look(looked_at: Path) -> None:
    """What its report says is what the file's says."""
    with open_page_of_recording(looked_at, port=0) as page:
        asked = json.loads(said("report", page.url, "--json"))
    assert asked["made_of"] is not None
    assert asked == json.loads(said("report", looked_at, "--json"))


def traced(path: Path, product_us: float) -> Path:
    """13 turns: a draft of 0.1 ms, a verify as a graph of three kernels with 0.15 ms of gaps."""
    trace = turns(newest, 13)
    for place in range(13):
        at_us = 1000.0 + place * TURN_US
        trace.launched(at_us + 1300, ("nvjet_tst_64x8", at_us + 5000, 100.0))
        trace.launched(
            at_us + 4000,
            ("flash_fwd_splitkv_kernel", at_us + 6000, 400.0),
            ("cross_device_reduce_1stage", at_us + 6500, 250.0),
            ("nvjet_tst_64x8", at_us + 6800, product_us),
            call="cudaGraphLaunch",
        )
    return trace.write(path)


def test_the_report_of_imported_traces_says_of_what_phases_are_made(tmp_path: Path) -> None:
    """TP1 multiplies for 1.5 ms and not 1.2, so that it is told, and that it is slower."""
    traces = [
        traced(tmp_path / f"1-TP-{rank}.trace.json", took_us)
        for rank, took_us in enumerate((1200.0, 1500.0))
    ]
    said("import", *traces, "-o", tmp_path / "run.spectrace")
    made = json.loads(said("report", tmp_path / "run.spectrace", "--json"))["made_of"]
    assert (made["source"], made["rank"], made["slowest"]) == ("trace", "TP1", "TP1")
    text = said("report", tmp_path / "run.spectrace")
    assert "server: a trace of the torch profiler, process 4242" in text  # on no named machine
    [verify] = [one for one in made["phases"] if one["phase"] == "verify.forward"]
    assert {one["kernel_class"]: one["time_ms"] for one in verify["parts"]} == pytest.approx(
        {"matmul": 1.5, "attention": 0.4, "communication": 0.25}
    )
    figures = [verify[name] for name in ("device_ms", "gap_ms", "kernels", "launches", "replays")]
    assert figures == pytest.approx([2.3, 0.15, 3, 1, 1])
    works = {one["rank"]: (one["own_ms"], one["communication"]) for one in made["ranks"]}
    assert works["TP0"] == pytest.approx((1.7, 0.25 / 1.95))
    assert works["TP1"] == pytest.approx((2.0, 0.25 / 2.25))
    assert (
        "Of the 2.30 ms that TP1's device takes for verify.forward in a cycle, 1.50 ms are matrix "
        "products, 0.40 ms attention, 0.25 ms communication and 0.15 ms nothing at all."
    ) in " ".join(said("report", tmp_path / "run.spectrace").split())


def test_positions_of_two_and_three_correct_drafts(recording: Path) -> None:
    """All reach the third, half pass it, none the fourth."""
    found = json.loads(said("report", recording, "--json"))["acceptance"][0]
    assert [one["conditional"]["value"] for one in found["positions"]] == [1.0, 1.0, 0.5, 0.0]
    assert found["histogram"] == [0, 0, 200, 200, 0, 0]


def test_the_terminal_says_the_answer_first(recording: Path) -> None:
    """Then where a cycle goes, acceptance, and what other settings would give."""
    text = said("report", recording)
    assert text.startswith("Speculation pays: 1.75 \u00d7 plain decode")
    for title in ("Where a cycle goes", "Acceptance by position", "What other settings would give"):
        assert title in text


def test_a_baseline_that_a_person_gives(recording: Path) -> None:
    """With a plain decode of 2 ms break-even is 5, and speculation does not pay."""
    found = json.loads(said("report", recording, "--json", "--baseline-ms", "2"))
    assert found["verdict"]["by_batch"][0]["break_even"]["value"] == pytest.approx(5.0, rel=0.001)
    assert found["verdict"]["answer"] == "loses"


def test_a_baseline_from_another_recording(recording: Path, tmp_path: Path) -> None:
    """The same figures as from the run's own."""
    alone = record(tmp_path / "alone.spectrace", [cycle_of(number, 1) for number in range(210)])
    found = json.loads(said("report", alone, "--json", "--baseline", recording))
    assert found["baseline"]["source"] == "recording"
    assert found["verdict"]["speed_up"]["value"] == pytest.approx(1.75, rel=0.001)
    unknown = json.loads(said("report", alone, "--json"))
    assert unknown["verdict"]["answer"] == "unknown"
    assert "no_baseline" in unknown["gaps"]


def test_a_baseline_of_another_server_is_told_from_this_one(tmp_path: Path) -> None:
    """By engine and release, machine, ranks and model; what a run does not say makes none."""
    command = ("python", "-m", "sglang.launch_server", "--model-path", "/models/a")
    here = replace(run_of(1), command=command)
    there = replace(
        run_of(2), engine="sglang 0.5.22", host="other", command=(*command[:-1], "/models/b")
    )
    silent = replace(run_of(1), engine="", host="", command=())
    path = record(tmp_path / "run.spectrace", [cycle_of(n, 1) for n in range(210)], here)
    plains = [plain(number) for number in range(FIRST + 100)]
    said_of = {
        name: json.loads(said("report", path, "--json", "--baseline", file))
        for name, run in (("here", here), ("there", there), ("silent", silent))
        for file in [record(tmp_path / f"{name}.spectrace", plains, run)]
    }
    assert said_of["here"]["baseline_differs"] == []
    assert said_of["silent"]["baseline_differs"] == []
    found = said_of["there"]
    assert found["baseline_differs"] == [
        {"what": "engine", "one": "sglang 0.5.23", "other": "sglang 0.5.22"},
        {"what": "host", "one": "node", "other": "other"},
        {"what": "ranks", "one": "1", "other": "2"},
        {"what": "model", "one": "/models/a", "other": "/models/b"},
    ]
    assert (
        "Plain decode was recorded of another server (engine sglang 0.5.22, not sglang 0.5.23, "
        "host other, not node, ranks 2, not 1 and model /models/b, not /models/a)"
    ) in " ".join(found["sentences"])


def test_markdown_can_be_pasted(recording: Path) -> None:
    """Tables with as many cells in every row, versions and settings, and no secret."""
    text = said("report", recording, "--markdown")
    assert text.startswith("## Speculation pays: 1.75")
    assert "sglang 0.5.23" in text
    assert "--api-key" in text
    assert "s3cr3t" not in text
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") - line.count("\\|") for line in lines}) <= 1


class _Outline(HTMLParser):
    """What a page asks of elsewhere, and whether all that is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.asks: list[str] = []
        self.unbalanced = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element."""
        self.asks += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without content."""

    def handle_endtag(self, tag: str) -> None:
        """Notes its end."""
        self.unbalanced |= not self.open or self.open.pop() != tag


def test_the_page_needs_nothing_else(recording: Path, tmp_path: Path) -> None:
    """One file, mode 0600, whose pictures are well-formed and whose data is the JSON."""
    path = tmp_path / "report.html"
    said("report", recording, "--html", path)
    text = path.read_text("utf-8")
    outline = _Outline()
    outline.feed(text)
    assert not outline.asks
    assert not outline.unbalanced
    assert not outline.open
    assert path.stat().st_mode & 0o777 == 0o600
    pictures = [part.split("</svg>")[0] + "</svg>" for part in text.split("<svg")[1:]]
    assert len(pictures) >= 3
    for picture in pictures:
        ET.fromstring(f"<svg{picture}")  # noqa: S314 - our own text
    raw = text.split('id="result">')[1].split("</script>")[0]
    assert json.loads(raw)["verdict"]["answer"] == "pays"
    assert "s3cr3t" not in text


def test_a_page_is_not_replaced_unless_told_so(recording: Path, tmp_path: Path) -> None:
    """Nor is a report made for nothing."""
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(SpectraceError, match="-f"):
        said("report", recording, "--html", path)
    assert path.read_text() == "mine"


def test_a_run_is_chosen_by_its_id(recording: Path) -> None:
    """One that is not there is named, with those that are."""
    assert json.loads(said("report", recording, "--json", "--run", run_of().run_id[:6]))
    with pytest.raises(SpectraceError, match=f"has no run ffff.*{run_of().run_id[:8]}"):
        said("report", recording, "--run", "ffff")


def test_two_formats_at_once_are_refused(recording: Path) -> None:
    """As are two baselines."""
    with pytest.raises(SpectraceError, match="--markdown"):
        said("report", recording, "--json", "--markdown")
    with pytest.raises(SpectraceError, match="--baseline-ms"):
        said("report", recording, "--baseline", recording, "--baseline-ms", "3")


def test_a_prediction_is_kept_and_held_against_a_run(tmp_path: Path) -> None:
    """Of two steps from a store that has five and two: it is measured there, and holds."""
    long_recording.make(tmp_path / "store", 20_000, slices=1)
    kept = tmp_path / "two.json"
    said("predict", tmp_path / "store", "--steps", 2, "--batch", 1, "-o", kept)
    found = json.loads(said("predict", tmp_path / "store", "--check", kept, "--json"))
    assert found["held"] == "held"
    assert {one["held"] for one in found["assumptions"]} == {"held"}


def test_a_prediction_needs_something_to_predict(recording: Path) -> None:
    """Steps, or a prediction to check."""
    with pytest.raises(SpectraceError, match="--steps"):
        said("predict", recording)


def test_where_a_prediction_goes_is_looked_at_before_any_work(tmp_path: Path) -> None:
    """The run is not there either, and comes second."""
    with pytest.raises(SpectraceError, match="there is no folder"):
        said("predict", tmp_path / "no", "--steps", 2, "-o", tmp_path / "none" / "two.json")


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("-o", "two.json"), "--output is"),
        (("--batch", "2"), "--batch is"),
        (("--assume", "verify_ms=3", "-o", "x"), "--output and --assume are"),
    ],
)
def test_a_check_makes_no_prediction(tmp_path: Path, more: tuple[str, ...], named: str) -> None:
    """What is for a new one is refused beside it."""
    with pytest.raises(SpectraceError, match=f"{named} for a new prediction"):
        said("predict", tmp_path / "run", "--check", tmp_path / "kept.json", *more)


def test_why_a_tree_says_nothing_of_other_steps(tmp_path: Path) -> None:
    """And how to find out."""
    trees = [replace(cycle_of(number, 1), topk=4, draft_tokens=8) for number in range(210)]
    path = record(tmp_path / "tree.spectrace", trees)
    with pytest.raises(SpectraceError, match=r"drafts form trees there.*sweep --steps 2"):
        said("predict", path, "--steps", 2)


def test_a_page_at_work_is_asked_for_its_report(recording: Path) -> None:
    """It says what a report on the file says, and names what it does not know."""
    with open_page_of_recording(recording, port=0) as page:
        asked = json.loads(said("report", page.url, "--json"))
        with pytest.raises(SpectraceError, match="has no run ffff"):
            said("report", page.url, "--run", "ffff")
        with pytest.raises(SpectraceError, match="--baseline-ms"):
            said("report", page.url, "--baseline", recording)
        given = json.loads(said("report", page.url, "--json", "--baseline-ms", 2))
    assert asked == json.loads(said("report", recording, "--json"))
    assert given["verdict"]["answer"] == "loses"


def test_where_no_page_is_it_is_said() -> None:
    """With what to name instead."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(SpectraceError, match="No spectrace answers"):
        said("report", url)


@pytest.fixture(scope="module")
def of_two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 210 speculative cycles, and one of 110 plain ones."""
    path = tmp_path_factory.mktemp("two") / "two.spectrace"
    other = replace(run_of(1), run_id="ab" * 16)
    with closing(CycleStore(path.with_name("store"), retain_s=1e9, max_bytes=1 << 30)) as kept:
        kept.put_run(run_of(1))
        kept.put_run(other)
        kept.add([cycle_of(number, 1) for number in range(FIRST + 200)])
        kept.add([replace(plain(n), run_id=other.run_id) for n in range(FIRST + 100)])
        kept.save(path)
    return path


def test_a_report_says_that_the_recording_has_other_runs(of_two_runs: Path) -> None:
    """By the start of their ids; not where one was chosen."""
    assert "has 1 other run (abababab)" in said("report", of_two_runs)
    assert "other run" not in said("report", of_two_runs, "--run", "0123")


def test_a_baseline_is_of_the_run_that_has_plain_decode(of_two_runs: Path) -> None:
    """Also where another run of that recording has more cycles: 3.5 tokens in 10 ms against 5."""
    found = json.loads(said("report", of_two_runs, "--json", "--baseline", of_two_runs))
    assert found["verdict"]["speed_up"]["value"] == pytest.approx(1.75, rel=0.001)


@pytest.mark.parametrize("given", ["inf", "nan", "1e300", "0", "-1"])
def test_a_baseline_that_nothing_takes_is_refused(recording: Path, given: str) -> None:
    """With what it may be."""
    with pytest.raises(SpectraceError, match=r"--baseline-ms says .*: .* 0\.001 to 1e\+06 ms"):
        said("report", recording, "--baseline-ms", given)
