"""What a report says of a look at kernels: sentences and tables of figures that are known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spectrace.analysis.made_of import MadeOf, made_of
from spectrace.analysis.run_report import RunReport, report
from spectrace.cli import run_words
from spectrace.cli.made_of_words import notes, sentences
from spectrace.cli.run_page import page
from spectrace.cli.run_sections import sections
from spectrace.cli.run_table import markdown
from spectrace.kernels import ClassTime, KernelLook, LookSource, PhaseWork, WindowLoss
from tests.helpers.known_look import VERIFY, look, times, work
from tests.helpers.simulated_run import Stretch, simulated

pytestmark = pytest.mark.beside_others

SLOW = {"TP0": VERIFY | {"communication": 7.0}, "TP1": VERIFY | {"matmul": 21.0}}


def found(*looks: KernelLook) -> MadeOf:
    """What is found in looks that saw something."""
    seen = made_of(looks)
    assert seen is not None
    return seen


def test_one_sentence_says_of_what_verify_is_made() -> None:
    """Every part with its time; that nothing ran is a part."""
    assert list(sentences(found(look()))) == [
        (
            "Of the 28.7 ms that TP0's device takes for verify.forward in a cycle, 17.2 ms are "
            "matrix products, 4.10 ms attention, 3.40 ms communication, 2.00 ms norms and 2.00 ms "
            "nothing at all."
        ),
        "Communication is 12 % of the time of all kernels that TP0's phases launched.",
    ]


def test_what_takes_little_is_summed_up_and_a_class_of_ones_own_keeps_its_name() -> None:
    """Twice 0.3 of 27.6 ms are less than 2 % each, and together more."""
    small = look({"TP0": {"lm_head": 25.0, "norm": 0.3, "copy": 0.3}})
    first = next(sentences(found(small)))
    assert "25.0 ms are lm_head, 0.60 ms smaller ones and 2.00 ms nothing at all." in first


def test_kernels_that_ran_at_once_do_not_add_up_to_the_time_and_it_is_said() -> None:
    """40 ms of kernels in 26.7 ms."""
    both = look(kernels=times("TP0", "verify.forward", {"matmul": 30.0, "communication": 10.0}))
    assert next(sentences(found(both))) == (
        "In the 28.7 ms that TP0's device takes for verify.forward in a cycle (2.00 ms of them "
        "nothing at all), its kernels take 40.0 ms, since some ran at once: 30.0 ms are matrix "
        "products and 10.0 ms communication."
    )


def test_a_phase_without_known_kernels_is_said_to_be_unknown() -> None:
    """Of verify no time came, of the draft it did."""
    odd = look(
        phases=(work("TP0", "verify.forward", 28.7, 2.0), work("TP0", "draft", 2.0, 0.4)),
        kernels=times("TP0", "draft", {"matmul": 1.6}),
    )
    assert next(sentences(found(odd))) == "Of what verify.forward is made is not known."


def test_beside_the_table_it_is_said_what_watching_did() -> None:
    """A replay of 26 ms becomes 28.7 ms, a cycle of 30.1 ms one of 34 ms."""
    assert list(notes(found(look(), look()))) == [
        (
            "Seen whole, which disturbs little, a replay of its graph took 26.0 ms (mean of 5 "
            "replays); kernel by kernel, and with what is launched around it, verify.forward takes "
            "28.7 ms, 1.10 times as much."
        ),
        (
            "Over 10 cycles of a watched server, the newest of 2 looks: a cycle took 34.0 ms while "
            "kernels were seen, and 30.1 ms before (medians). For how long phases take, the times "
            "of the report are the measure."
        ),
    ]


def test_ranks_are_compared_where_they_differ() -> None:
    """TP1 multiplies 3.8 ms longer, TP0 communicates 3.6 ms longer, waiting maybe."""
    said = " ".join(notes(found(look(SLOW))))
    assert "TP1's own kernels take 28.7 ms of a cycle, those of TP0 24.9 ms." in said
    assert "TP0 spends 7.00 ms in communication, TP1 3.40 ms: a collective lasts" in said


def test_ranks_that_do_not_differ_are_said_to_be_alike() -> None:
    """24.9 ms each, though one waits."""
    same = look({"TP0": VERIFY, "TP1": VERIFY | {"communication": 9.0}})
    assert next(notes(found(same))) == (
        "The ranks' own kernels take about as long: 24.9 ms to 24.9 ms of a cycle."
    )


def test_of_a_trace_no_window_is_told() -> None:
    """It has neither costs nor losses."""
    trace = look(source=LookSource.TRACE, costs=())
    assert list(notes(found(trace)))[-1] == (
        "Over 10 cycles of a trace: whoever wrote it made the server slower."
    )


def test_what_is_not_in_the_figures_is_said() -> None:
    """Seven of 100 records found no room."""
    lossy = look(losses=(WindowLoss(rank="TP0", records=100, no_room=7),))
    assert "7 of 100 records found no room" in " ".join(notes(found(lossy)))


UNSEEN = report(simulated([Stretch(300, 5)]))


def reported(*looks: KernelLook) -> RunReport:
    """The report of a run that was looked at."""
    return replace(UNSEEN, made_of=made_of(looks))


def test_the_tables_have_each_phase_each_class_and_each_rank() -> None:
    """As many cells as heads; a class that a phase lacks is a dash."""
    tables = {one.title: one for one in sections(reported(look(SLOW)))}
    phases = tables["What a phase is made of, TP1, per cycle"]
    assert [row[:3] for row in phases.rows] == [
        ("verify.forward", "32.5", "2.00"),
        ("draft", "2.00", "0.40"),
    ]
    classes = tables["Kernels by class, TP1, ms per cycle"]
    assert classes.heads == ("phase", "matmul", "attention", "communication", "norm")
    assert classes.rows == (
        ("verify.forward", "21.0", "4.10", "3.40", "2.00"),
        ("draft", "1.20", "0.40", "\u2013", "\u2013"),
    )
    ranks = tables["Kernels of the ranks"]
    assert [row[:4] for row in ranks.rows] == [
        ("TP0", "24.9", "7.00", "22 %"),
        ("TP1", "28.7", "3.40", "11 %"),
    ]
    for table in (phases, classes, ranks):
        assert {len(row) for row in table.rows} == {len(table.heads)}


NAMES = st.sampled_from(("TP0", "TP1", "verify.forward", "draft", "matmul", "communication", ""))
AMOUNTS = st.just(0.0) | st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(-2, 1 << 40)
WORKS = st.builds(
    PhaseWork,
    rank=NAMES,
    phase=NAMES | st.text(max_size=3),
    cycles=COUNTS,
    device_ms=AMOUNTS,
    busy_ms=AMOUNTS,
    gap_ms=AMOUNTS,
    kernels=AMOUNTS,
    launches=AMOUNTS,
    replays=st.just(1.0) | AMOUNTS,
    replay_ms=st.none() | AMOUNTS,
    replays_seen=COUNTS,
)
TIMES = st.builds(
    ClassTime, rank=NAMES, phase=NAMES, kernel_class=NAMES, time_ms=AMOUNTS, kernels=COUNTS
)


@given(
    st.lists(WORKS, max_size=4).map(tuple),
    st.lists(TIMES, max_size=8).map(tuple),
    st.dictionaries(NAMES, COUNTS, max_size=3),
)
def test_whatever_a_stored_look_says_is_told(
    phases: tuple[PhaseWork, ...], kernels: tuple[ClassTime, ...], seen: dict[str, int]
) -> None:
    """Damaged or hostile as it may be: words, tables, and a page come of it."""
    told = reported(look(phases=phases, kernels=kernels, cycles_seen=seen))
    told = replace(told, sentences=run_words.sentences(told))
    assert markdown(told)
    assert page(told, b"{}")


def test_where_nobody_looked_nothing_is_said_of_kernels() -> None:
    """No sentence, and no table."""
    assert list(sentences(None)) == []
    titles = [one.title for one in sections(reported())]
    assert not any("made of" in title or "ernels" in title for title in titles)
    one_rank = [one.title for one in sections(reported(replace(look(), costs=())))]
    assert "Kernels of the ranks" not in one_rank
