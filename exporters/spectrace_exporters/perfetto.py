"""Writes Perfetto's own format, for ui.perfetto.dev and its trace processor.

Packets are those of the package `perfetto`: a track per rank, below it one per lane, slices as
begin and end. Times are UNIX ns; the clock snapshot says that the trace's clock is that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    BuiltinClock,
    TracePacket,
    TrackEvent,
)
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from spectrace.model import PhaseName
from spectrace_exporters import Recorded
from spectrace_exporters._tracks import Slice, Track, Tracks, Value, edges

_SEQUENCE = 1
_NAMES = {name.value: number for number, name in enumerate(PhaseName, 1)}
_CATEGORY = "spectrace"


class PerfettoFile:
    """One sequence of packets."""

    suffix = ".pftrace"

    def write(self, recorded: Recorded, path: Path) -> None:
        """As `FileExporter.write`."""
        with path.open("wb") as out:
            builder = StreamingTraceProtoBuilder(out)
            for packet in packets(recorded):
                builder.write_packet(packet)


def packets(recorded: Recorded) -> Iterator[TracePacket]:
    """All packets; those of a track in their order."""
    yield _clock(recorded.first_ns)
    yield _names()
    tracks, uuids = Tracks(), _Uuids()
    for cycle in recorded.cycles():
        for track, piece in tracks.place(cycle):
            yield from uuids.introduce(track)
            for time_ns, begun in edges(piece):
                yield _event(uuids.of(track), time_ns, begun)


def _clock(time_ns: int) -> TracePacket:
    packet = TracePacket(trusted_packet_sequence_id=_SEQUENCE)
    for clock in (BuiltinClock.BUILTIN_CLOCK_BOOTTIME, BuiltinClock.BUILTIN_CLOCK_REALTIME):
        packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=time_ns)
    return packet


def _names() -> TracePacket:
    """Lets events name a phase by its number."""
    packet = TracePacket(
        trusted_packet_sequence_id=_SEQUENCE,
        sequence_flags=TracePacket.SEQ_INCREMENTAL_STATE_CLEARED,
    )
    for name, number in _NAMES.items():
        packet.interned_data.event_names.add(iid=number, name=name)
    return packet


def _event(uuid: int, time_ns: int, begun: Slice | None) -> TracePacket:
    packet = TracePacket(
        timestamp=time_ns,
        trusted_packet_sequence_id=_SEQUENCE,
        sequence_flags=TracePacket.SEQ_NEEDS_INCREMENTAL_STATE,
    )
    event = packet.track_event
    event.track_uuid = uuid
    if begun is None:
        event.type = TrackEvent.TYPE_SLICE_END
        return packet
    event.type = TrackEvent.TYPE_SLICE_BEGIN
    event.categories.append(_CATEGORY)
    if begun.name in _NAMES:
        event.name_iid = _NAMES[begun.name]
    else:
        event.name = begun.name
    for name, value in begun.details.items():
        _annotate(event, name, value)
    return packet


def _annotate(event: TrackEvent, name: str, value: Value) -> None:
    annotation = event.debug_annotations.add(name=name)
    if isinstance(value, bool):
        annotation.bool_value = value
    elif isinstance(value, int):
        annotation.int_value = value
    else:
        annotation.string_value = value


class _Uuids:
    """Numbers ranks and tracks, and describes each before it is used."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...] | Track, int] = {}

    def of(self, track: Track) -> int:
        """The number of a track that was introduced."""
        return self._numbers[track]

    def introduce(self, track: Track) -> Iterator[TracePacket]:
        """The descriptors of a track, and of its rank, that have not been seen yet."""
        rank = (track.run_id, track.rank)
        if rank not in self._numbers:
            yield self._describe(rank, track.rank)
        if track not in self._numbers:
            yield self._describe(track, track.name, parent=self._numbers[rank])

    def _describe(
        self, key: tuple[str, ...] | Track, name: str, parent: int | None = None
    ) -> TracePacket:
        number = self._numbers[key] = len(self._numbers) + 1
        packet = TracePacket(trusted_packet_sequence_id=_SEQUENCE)
        packet.track_descriptor.uuid = number
        packet.track_descriptor.name = name
        if parent is not None:
            packet.track_descriptor.parent_uuid = parent
        return packet
