"""On no track of a timeline does a slice cross another, end before it begins, or lack its end."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from spectrace_exporters.chrome import ChromeFile
from spectrace_exporters.perfetto import PerfettoFile

from spectrace.analysis.sound import sound
from spectrace.model import Cycle, Run
from spectrace.store.extract import Extract
from tests.helpers.recorded import CYCLE_NS, DEVICE_PARTS, PARTS, T0_NS, cycle_of, record, run_of
from tests.helpers.stored import CYCLES

S = 1_000_000_000


class Drawn(NamedTuple):
    """A slice as a viewer draws it: on which track, within what, from when to when."""

    track: str
    path: tuple[str, ...]
    start_ns: int
    end_ns: int


class Given:
    """Cycles that are exported without a file."""

    def __init__(self, cycles: Sequence[Cycle]) -> None:
        kept = [sound(cycle)[0] for cycle in cycles]
        self._cycles = sorted(filter(None, kept), key=lambda cycle: cycle.start_ns)
        self.count = len(self._cycles)
        self.first_ns = 0
        self.runs: Sequence[Run] = ()

    def cycles(self) -> Iterator[Cycle]:
        """In the order of their starts."""
        return iter(self._cycles)

    def table(self, name: str) -> Any:
        """Not asked for by a timeline."""
        raise AssertionError(name)


def drawn(track: str, edges: Sequence[tuple[int, str | None]]) -> Iterator[Drawn]:
    """The slices of one track; fails where a viewer would have to guess.

    Args:
        track: Its name.
        edges: In the order of the file, as (time in ns, name of what begins or None).
    """
    open_: list[tuple[str, int]] = []
    last_ns = 0
    for time_ns, name in edges:
        assert time_ns >= last_ns
        last_ns = time_ns
        if name is not None:
            open_.append((name, time_ns))
        else:
            path = tuple(name for name, _ in open_)
            yield Drawn(track, path, open_.pop()[1], time_ns)
    assert not open_


def drawn_by_chrome(data: dict[str, Any]) -> list[Drawn]:
    """What Chrome's JSON shows, whole ns since its origin."""
    names: dict[tuple[int, int], str] = {}
    edges: defaultdict[tuple[int, int], list[tuple[int, str | None]]] = defaultdict(list)
    for event in data["traceEvents"]:
        place = event["pid"], event["tid"]
        if event["ph"] == "M":
            if "name" in event["args"]:
                names[place] = f"{names.get(place, '')}/{event['args']['name']}"
        else:
            assert event["ph"] in {"B", "E"}
            edges[place].append((int(event["ts"] * 1000), event.get("name")))
    return [piece for place in edges for piece in drawn(names[place], edges[place])]


def drawn_by_perfetto(trace: Trace) -> list[Drawn]:
    """What Perfetto's packets show, in UNIX ns."""
    names: dict[int, str] = {}
    interned: dict[int, str] = {}
    edges: defaultdict[int, list[tuple[int, str | None]]] = defaultdict(list)
    for packet in trace.packet:
        interned |= {one.iid: one.name for one in packet.interned_data.event_names}
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in names
            names[track.uuid] = f"{names.get(track.parent_uuid, '')}/{track.name}"
        if packet.HasField("track_event"):
            event = packet.track_event
            ends = event.type == TrackEvent.TYPE_SLICE_END
            name = None if ends else event.name or interned[event.name_iid]
            edges[event.track_uuid].append((packet.timestamp, name))
    return [piece for uuid in edges for piece in drawn(names[uuid], edges[uuid])]


def written(cycles: Sequence[Cycle]) -> tuple[list[Drawn], list[Drawn]]:
    """What both formats show of cycles."""
    with tempfile.TemporaryDirectory() as folder:
        chrome, perfetto = Path(folder) / "a", Path(folder) / "b"
        ChromeFile().write(Given(cycles), chrome)
        PerfettoFile().write(Given(cycles), perfetto)
        return (
            drawn_by_chrome(json.loads(chrome.read_bytes(), parse_float=Decimal)),
            drawn_by_perfetto(Trace.FromString(perfetto.read_bytes())),
        )


def test_a_recording_is_drawn_to_the_nanosecond(tmp_path: Path) -> None:
    """Two ranks: on each a host track with a slice per cycle, and a device track."""
    file = record(tmp_path / "run.spectrace", [cycle_of(1, 2), cycle_of(2, 2)], run_of(2))
    with closing(Extract(file)) as extract:
        ChromeFile().write(extract, tmp_path / "chrome")
        PerfettoFile().write(extract, tmp_path / "perfetto")
    data = json.loads((tmp_path / "chrome").read_text(), parse_float=Decimal)
    trace = Trace.FromString((tmp_path / "perfetto").read_bytes())

    origin_ns = int(data["otherData"]["origin_unix_ns"])
    assert origin_ns == T0_NS // S * S
    shown = drawn_by_perfetto(trace)
    assert [
        piece._replace(
            start_ns=piece.start_ns + origin_ns,
            end_ns=piece.end_ns + origin_ns,
        )
        for piece in drawn_by_chrome(data)
    ] == shown

    tracks = {piece.track for piece in shown}
    assert tracks == {f"/TP{rank}/{lane}" for rank in (0, 1) for lane in ("host", "device")}
    # On each rank and of each cycle: itself and a `verify` on both lanes, and all phases.
    assert len(shown) == 2 * 2 * (4 + len(PARTS) + len(DEVICE_PARTS))
    start_ns = T0_NS + CYCLE_NS + 1  # of the second rank in the first cycle
    assert Drawn("/TP1/host", ("cycle 1",), start_ns, start_ns + CYCLE_NS) in shown
    prepare = ("cycle 1", "verify", "verify.prepare")
    assert Drawn("/TP1/host", prepare, start_ns + 2_500_000, start_ns + 3_750_000) in shown
    forward = ("cycle 1", "verify", "verify.forward")
    assert Drawn("/TP1/device", forward, start_ns + 7_000_000, start_ns + 9_999_999) in shown


def test_what_would_cross_stands_on_a_further_track_as_it_is() -> None:
    """A cycle that begins within the one before it, as of a clock that was set back."""
    first, late = cycle_of(1, 1), cycle_of(2, 1)
    moved = replace(
        late,
        ranks=(replace(late.ranks[0], start_ns=late.ranks[0].start_ns - 5, phases=()),),
    )
    for shown in written([first, moved]):
        by_path = {piece.path: piece for piece in shown if "host" in piece.track}
        assert by_path["cycle 1",].track.endswith("host")
        assert by_path["cycle 2",].track.endswith("host (2)")
        assert by_path["cycle 2",].end_ns - by_path["cycle 2",].start_ns == CYCLE_NS + 5


def test_the_details_of_a_cycle_are_in_both_formats() -> None:
    """Numbers, and what each request got, on the host track of the first rank."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        ChromeFile().write(Given([cycle_of(7, 1)]), path)
        begun = [event for event in json.loads(path.read_text())["traceEvents"] if "args" in event]
        chrome = next(event["args"] for event in begun if event["name"] == "cycle 7")
        path.unlink()
        PerfettoFile().write(Given([cycle_of(7, 1)]), path)
        packets = Trace.FromString(path.read_bytes()).packet
    event = next(p.track_event for p in packets if p.track_event.name == "cycle 7")
    perfetto = {note.name: note.int_value or note.string_value for note in event.debug_annotations}
    for details in (chrome, perfetto):
        assert details["number"] == 7
        assert details["kind"] == "speculative"
        assert details["request r2"] == "3 tokens, 2 drafts correct"


@settings(max_examples=60)
@given(st.lists(CYCLES, max_size=6))
def test_whatever_is_in_a_file_nothing_crosses(cycles: list[Cycle]) -> None:
    """Any times at all: every sound phase and rank is drawn once, with its own length."""
    kept = [one for one in (sound(cycle)[0] for cycle in cycles) if one is not None]
    ranks = [(cycle.number, rank) for cycle in kept for rank in cycle.ranks]
    expected = Counter(
        (phase.name.value, phase.duration_ns) for _, rank in ranks for phase in rank.phases
    )
    expected += Counter((f"cycle {number}", rank.duration_ns) for number, rank in ranks)
    for shown in written(cycles):
        found = Counter((piece.path[-1], piece.end_ns - piece.start_ns) for piece in shown)
        assert expected <= found
