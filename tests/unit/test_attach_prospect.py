"""What is known of a server before it is attached to follows from facts and rings."""

from __future__ import annotations

import pytest

from spectrace.attach.facts import Interpreter, Machine, Process, SharedMemory
from spectrace.attach.prospect import prospect
from spectrace.attach.rank_status import RankStatus
from spectrace.attach.ways import Way
from spectrace.model import Rank, Run

ME, OTHER = 1000, 1001
HERE = Machine(processor="x86_64", uid=ME, user="me", may_trace_others=False)
RUN = Run(
    run_id="r",
    host="here",
    server_pid=70,
    command=("python", "-m", "sglang.launch_server"),
    ranks=(Rank(name="TP0", pid=71), Rank(name="TP1", pid=72)),
    anchor_unix_ns=0,
    anchor_monotonic_ns=0,
)


def rank(name: str, *, uid: int = ME, python: tuple[int, int] = (3, 12)) -> Process:
    """A rank's process, of somebody."""
    return Process(
        pid=71,
        rank=name,
        state="S",
        uid=uid,
        user="me" if uid == ME else "other",
        may_attach=uid == ME,
        same_files=True,
        interpreter=Interpreter(file="python3", version=python),
        shared_memory=SharedMemory(total_bytes=1 << 30, free_bytes=1 << 30, writable=True),
        packages={"sglang": "0.5.23"},
    )


def status(state: str = "not traced", *, way: str = "", reader: str = "") -> RankStatus:
    """What a ring says."""
    return RankStatus(name="TP0", pid=71, state=state, way=way, reader=reader, mode="host")


@pytest.mark.parametrize(
    ("said", "way"),
    [
        (status(), Way.PTRACE),
        (status("left", way="injected"), Way.PTRACE),
        (status("traced", way="injected", reader="process 9"), Way.JOINED),
        (status("armed", way="injected"), Way.JOINED),
        (status("asleep", way="plugin"), Way.PLUGIN),
        (status("asleep", way="loop"), Way.LOOP),
        (status("traced", way="plugin", reader="process 9"), Way.JOINED),
    ],
)
def test_the_way_in_is_the_first_that_attach_would_take(
    monkeypatch: pytest.MonkeyPatch, said: RankStatus, way: Way
) -> None:
    """Who is there already is joined, who sleeps is woken; else the probe is put in."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert prospect(HERE, RUN, [rank("TP0"), rank("TP1")], [said, said]).way is way


def test_python_3_14_lets_the_probe_in_itself_and_other_processors_by_gdb(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `ways.order` has them."""
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    for python, way in (((3, 14), Way.REMOTE_EXEC), ((3, 12), Way.GDB)):
        found = prospect(HERE, RUN, [rank("TP0", python=python)], [status()])
        assert found.way is way


def test_who_traces_a_server_and_how_is_known_before() -> None:
    """By any of its ranks; where nobody reads there is no mode that would be kept."""
    traced = status("traced", way="injected", reader="process 9")
    found = prospect(HERE, RUN, [rank("TP0"), rank("TP1")], [status(), traced])
    assert (found.reader, found.mode, found.ranks) == ("process 9", "host", ("TP0", "TP1"))
    free = prospect(HERE, RUN, [rank("TP0")], [status()])
    assert (free.reader, free.mode, free.obstacle, free.mend) == ("", None, "", "")
    assert free.engine == "sglang 0.5.23"


def test_what_is_in_the_way_is_what_doctor_says() -> None:
    """A sentence with the ranks that it is about, and what mends it."""
    found = prospect(HERE, RUN, [rank("TP0"), rank("TP1", uid=OTHER)], [status(), status()])
    assert found.obstacle == "rights of TP1: it belongs to user other, and you are me."
    assert "sudo -u other spectrace attach" in found.mend
