"""Whatever is sent to a collector gets its right answer, and the collector stays as it was."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from tests.helpers.otlp_siege import (
    TOO_LONG,
    Besieged,
    announce,
    besieged,
    call_too_long,
    is_well,
    lay_siege,
)

pytestmark = pytest.mark.beside_others

MESSAGES = 300
GROWTH_MIB = 60.0


@pytest.fixture(scope="module")
def collector() -> Iterator[Besieged]:
    """One that all of this is sent to."""
    with besieged() as running:
        yield running


def test_bad_messages_get_their_answers_and_leave_no_trace(collector: Besieged) -> None:
    """Cut, flipped, random, bombs, wrong types: a right code each, no growth, no crash."""
    lay_siege(collector, 100)  # what is made once is made now
    before_mib = collector.resident_mib()
    said = lay_siege(collector, MESSAGES)
    assert said.total() >= MESSAGES
    assert collector.resident_mib() - before_mib < GROWTH_MIB
    assert collector.process.poll() is None
    assert is_well(collector)


def test_a_gibibyte_that_is_announced_is_not_waited_for(collector: Besieged) -> None:
    """413 at once, though nothing of it has come."""
    assert announce(collector, 1 << 30).startswith(b"HTTP/1.1 413 ")
    assert is_well(collector)


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip], ids=["plain", "gzip"])
def test_too_long_a_message_of_grpc_is_refused(
    collector: Besieged, compression: grpc.Compression | None
) -> None:
    """Before and after decompression; a sender must not try again."""
    code = call_too_long(collector, TOO_LONG, compression)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert is_well(collector)


def test_a_bomb_of_grpc_is_not_decompressed(collector: Besieged) -> None:
    """400 MiB of zeros come as 400 KiB; the collector's memory does not follow."""
    before_mib = collector.resident_mib()
    code = call_too_long(collector, 400 << 20, grpc.Compression.Gzip)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert collector.resident_mib() - before_mib < GROWTH_MIB
    assert is_well(collector)
