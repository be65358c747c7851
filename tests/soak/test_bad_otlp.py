"""Ten thousand bad messages, each other than the last, and the collector is as it was."""

from __future__ import annotations

from tests.helpers.otlp_siege import besieged, is_well, lay_siege

MESSAGES = 10_000
GROWTH_MIB = 60.0


def test_ten_thousand_bad_messages_leave_no_trace() -> None:
    """A right answer to each, no growth after the first thousand, no crash."""
    with besieged() as collector:
        first = lay_siege(collector, 1000)
        before_mib = collector.resident_mib()
        rest = lay_siege(collector, MESSAGES - 1000)
        assert first.total() + rest.total() >= MESSAGES
        print(dict(sorted((first + rest).items())))
        assert collector.resident_mib() - before_mib < GROWTH_MIB
        assert is_well(collector)
