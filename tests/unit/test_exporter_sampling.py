"""Which cycles are sent on."""

from __future__ import annotations

from msgspec.structs import replace
from spectrace_exporters._sampling import Sampler, Sampling

from spectrace.model import Cycle, CycleKind
from tests.helpers.recorded import cycle_of

MS = 1_000_000


def cycle(number: int, ms: float = 10.0, kind: CycleKind = CycleKind.SPECULATIVE) -> Cycle:
    """A cycle of two ranks, of which the second takes so many ms and the first 1 ms."""
    whole = cycle_of(number, 2)
    first, second = (
        replace(rank, end_ns=rank.start_ns + round(time * MS))
        for rank, time in zip(whole.ranks, (1.0, ms), strict=True)
    )
    return replace(whole, kind=kind, ranks=(first, second))


def sent(sampler: Sampler, cycles: list[Cycle]) -> list[int]:
    """Numbers of the cycles that are sent."""
    return [one.number for one in cycles if sampler.wants(one)]


def test_everything_is_sent_unless_somebody_says_otherwise() -> None:
    """Also what is not known by number."""
    assert sent(Sampler(Sampling()), [cycle(n) for n in (1, 2, 3)]) == [1, 2, 3]


def test_one_in_n_goes_by_the_number_of_the_cycle() -> None:
    """Two spectraces that see different cycles of a server agree on those that both see."""
    sampling = Sampling(every=10)
    here = sent(Sampler(sampling), [cycle(n) for n in range(1, 41)])
    there = sent(Sampler(sampling), [cycle(n) for n in range(17, 60)])

    assert here == [10, 20, 30, 40]
    assert there == [20, 30, 40, 50]


def test_a_cycle_is_slow_if_any_rank_is() -> None:
    """At 50 ms sharp it is, and one in N goes beside."""
    sampler = Sampler(Sampling(every=10, slow_ns=50 * MS))

    assert sent(sampler, [cycle(9, 49.9), cycle(10, 1), cycle(11, 50.0), cycle(12, 51)]) == [
        10,
        11,
        12,
    ]


def test_a_quantile_is_that_of_the_cycles_before() -> None:
    """Of 200 cycles of 1 to 200 ms one of 199 ms lies beyond 99 %, one of 150 ms does not."""
    sampler = Sampler(Sampling(every=0, slow_quantile=0.99))
    sent(sampler, [cycle(n, n) for n in range(1, 201)])

    assert sent(sampler, [cycle(300, 150.0)]) == []
    assert sent(sampler, [cycle(301, 199.5)]) == [301]


def test_no_cycle_is_slow_before_there_are_a_hundred() -> None:
    """A quantile of a few would call half of them slow."""
    sampler = Sampler(Sampling(every=0, slow_quantile=0.5))

    assert sent(sampler, [cycle(n, n) for n in range(1, 101)]) == []
    assert sent(sampler, [cycle(101, 90.0)]) == [101]


def test_kinds_are_compared_with_themselves() -> None:
    """A prefill takes longer than any decode and is not slow for that."""
    sampler = Sampler(Sampling(every=0, slow_quantile=0.9))
    sent(sampler, [cycle(n, 10.0) for n in range(1, 201)])
    sent(sampler, [cycle(n, 500 + n, CycleKind.EXTEND) for n in range(201, 401)])

    assert sent(sampler, [cycle(500, 600.0, CycleKind.EXTEND)]) == []


def test_only_the_last_cycles_count() -> None:
    """Once 1024 cycles have taken 100 ms, those that took 1 ms before are forgotten."""
    sampler = Sampler(Sampling(every=0, slow_quantile=0.5))
    sent(sampler, [cycle(n, 1.0) for n in range(1, 2001)])
    sent(sampler, [cycle(n, 100.0) for n in range(2001, 3026)])

    assert sent(sampler, [cycle(4000, 50.0)]) == []


def test_what_amends_a_slow_cycle_is_sent_too() -> None:
    """With its results a cycle comes again, when others may have been slower still."""
    sampler = Sampler(Sampling(every=0, slow_quantile=0.9))
    sent(sampler, [cycle(n, 10.0) for n in range(1, 201)])
    first = sent(sampler, [cycle(300, 20.0)])
    sent(sampler, [cycle(n, 500.0) for n in range(301, 500)])

    assert first == sent(sampler, [cycle(300, 20.0)]) == [300]


def test_a_ratio_goes_by_the_trace_id() -> None:
    """Half of 1000 cycles, give or take 5 standard deviations, and the same everywhere."""
    half = Sampling(ratio=0.5)
    cycles = [cycle(n) for n in range(1000)]
    chosen = sent(Sampler(half), cycles)

    assert 420 < len(chosen) < 580
    assert sent(Sampler(half), cycles[500:]) == [number for number in chosen if number >= 500]
    assert sent(Sampler(Sampling(ratio=0.0)), cycles) == []


def test_a_person_who_asks_for_slow_cycles_gets_no_others() -> None:
    """Unless they ask for one in N as well; who asks for nothing leaves it to the environment."""
    assert Sampling.of(None, None, None) is None
    assert Sampling.of(None, 0.05, None) == Sampling(every=0, slow_ns=50 * MS)
    assert Sampling.of(10, None, 0.99) == Sampling(every=10, slow_quantile=0.99)
    assert Sampling.of(10, None, None) == Sampling(every=10)
