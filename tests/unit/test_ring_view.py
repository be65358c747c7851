"""A ring's header words from outside: read and written whole, while others do the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from spectrace.collect.ring_view import RingView
from spectrace.probe.layout import Word
from tests.helpers.probe_ring import make_ring

READS = 100_000
LOW, HIGH = 0x00FF00FF00FF00FF, 0x7F00FF00FF00FF00  # no byte of one is a byte of the other
WRITER = f"""
import sys
from pathlib import Path
from spectrace.collect.ring_view import RingView
from spectrace.probe.layout import Word
view = RingView(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    view.set_word(Word.HEARTBEAT_NS, {LOW})
    view.set_word(Word.HEARTBEAT_NS, {HIGH})
"""


def test_nobody_sees_half_of_a_word(tmp_path: Path) -> None:
    """Half of a heartbeat would be a time long past, and its reader be taken for dead."""
    make_ring(tmp_path / "test.ring").close()
    view = RingView(tmp_path / "test.ring")
    view.set_word(Word.HEARTBEAT_NS, LOW)
    command = [sys.executable, "-c", WRITER, str(view.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline()
        seen: set[int] = set()
        while len(seen) < 2:  # it may have to wait for a processor
            seen |= {view.word(Word.HEARTBEAT_NS) for _ in range(READS)}
        writer.kill()
    view.close()
    assert seen == {LOW, HIGH}
