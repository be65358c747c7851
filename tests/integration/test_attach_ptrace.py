"""Stopping a main thread and calling functions in it: all of its state survives."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spectrace.attach import elf, ptrace
from spectrace.attach.ptrace import StoppedThread
from spectrace.errors import SpectraceError
from tests.integration.attach_targets import running, state_of, wait_until

pytestmark = [
    pytest.mark.beside_others,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]

# Keeps known values in every register of the extended state that the machine has, in a loop
# without calls, and counts the rounds after which one of them had changed. `spoil` overwrites
# them all, as any function of the process might.
NATIVE = r"""
#define _GNU_SOURCE
#include <immintrin.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

static volatile long received;
static void on_signal(int number) { (void)number; received++; }
long signals(void) { return received; }
void count_signals(int number) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, 0);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((target("avx"), noinline)) static long hold_avx(long rounds) {
    long bad = 0;
    static const uint64_t pattern[4] = {0x1111, 0x2222, 0x3333, 0x4444};
    uint64_t seen[4];
    uint16_t control = 0, after = 0;
    uint32_t mxcsr = 0x1f80 | 0x6000, mxcsr_after = 0, usual = 0x1f80;
    long double top = 0;
    __asm__ volatile("vldmxcsr %0" : : "m"(mxcsr));
    __asm__ volatile("fnstcw %0" : "=m"(control));
    __asm__ volatile("fldpi");
    __asm__ volatile("vmovdqu %0, %%ymm7" : : "m"(pattern) : "xmm7");
    __asm__ volatile("vmovdqu %0, %%ymm15" : : "m"(pattern) : "xmm15");
    for (long i = 0; i < rounds; i++) {
        __asm__ volatile("vmovdqu %%ymm7, %0" : "=m"(seen));
        bad += memcmp(seen, pattern, sizeof seen) != 0;
        __asm__ volatile("vmovdqu %%ymm15, %0" : "=m"(seen));
        bad += memcmp(seen, pattern, sizeof seen) != 0;
        __asm__ volatile("vstmxcsr %0" : "=m"(mxcsr_after));
        bad += (mxcsr_after & 0xffc0) != (mxcsr & 0xffc0);
        __asm__ volatile("fnstcw %0" : "=m"(after));
        bad += after != control;
    }
    __asm__ volatile("fstpt %0" : "=m"(top));
    bad += !(top > 3.14159L && top < 3.14160L);
    __asm__ volatile("vldmxcsr %0" : : "m"(usual));
    __asm__ volatile("vzeroupper");
    return bad;
}

__attribute__((target("avx512f"), noinline)) static long hold_avx512(long rounds) {
    long bad = 0;
    static const uint64_t pattern[8] = {1, 2, 3, 5, 8, 13, 21, 34};
    uint64_t seen[8];
    uint32_t mask = 0x5a5a, mask_after = 0;
    __asm__ volatile("vmovdqu64 %0, %%zmm29" : : "m"(pattern) : "xmm29");
    __asm__ volatile("kmovw %0, %%k5" : : "r"(mask) : "k5");
    for (long i = 0; i < rounds; i++) {
        __asm__ volatile("vmovdqu64 %%zmm29, %0" : "=m"(seen));
        bad += memcmp(seen, pattern, sizeof seen) != 0;
        __asm__ volatile("kmovw %%k5, %0" : "=r"(mask_after));
        bad += mask_after != mask;
    }
    return bad;
}

long hold(double seconds) {
    double end = now() + seconds;
    long bad = 0;
    while (now() < end) {
        bad += hold_avx(2000000);
        if (__builtin_cpu_supports("avx512f")) bad += hold_avx512(2000000);
    }
    return bad;
}

__attribute__((target("avx512f"))) static void spoil_avx512(void) {
    __asm__ volatile("vpternlogd $255, %%zmm29, %%zmm29, %%zmm29" : : : "xmm29");
    __asm__ volatile("kxorw %%k5, %%k5, %%k5" : : : "k5");
}

__attribute__((target("avx"))) long spoil(void) {
    uint32_t mxcsr = 0x1f80;
    uint16_t control = 0x027f;
    __asm__ volatile("vxorps %%ymm7, %%ymm7, %%ymm7" : : : "xmm7");
    __asm__ volatile("vxorps %%ymm15, %%ymm15, %%ymm15" : : : "xmm15");
    __asm__ volatile("vldmxcsr %0" : : "m"(mxcsr));
    __asm__ volatile("fninit; fldcw %0" : : "m"(control));
    if (__builtin_cpu_supports("avx512f")) spoil_avx512();
    return 4711;
}
"""

HOLDING = """
import ctypes, os, sys
native = ctypes.CDLL(sys.argv[1])
native.hold.argtypes = (ctypes.c_double,); native.hold.restype = ctypes.c_long
native.signals.restype = ctypes.c_long
native.count_signals(int(sys.argv[3]))
print(ctypes.cast(native.spoil, ctypes.c_void_p).value, flush=True)
bad = 0
while not os.path.exists(sys.argv[2]): bad += native.hold(0.05)
print(bad, native.signals(), flush=True)
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C code above as a shared object."""
    folder = tmp_path_factory.mktemp("native")
    source, library = folder / "native.c", folder / "native.so"
    source.write_text(NATIVE)
    compiler = shutil.which("gcc")
    assert compiler
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@contextlib.contextmanager
def holding(native: Path, finish: Path) -> Iterator[subprocess.Popen[str]]:
    """A process whose main thread holds known values in its registers."""
    if " avx " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs AVX")
    with running(HOLDING, str(native), str(finish), str(signal.SIGRTMIN)) as process:
        yield process


def spoil_address(process: subprocess.Popen[str], native: Path) -> int:
    """Where `spoil` stands in the process."""
    for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines():
        if line.endswith(str(native)):
            start = int(line.split("-")[0], 16)
            break
    else:
        raise AssertionError("not mapped")
    symbols = subprocess.run(
        ["/usr/bin/nm", "-D", native], check=True, capture_output=True, text=True
    ).stdout
    return start + next(
        int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" spoil")
    )


def counts(process: subprocess.Popen[str], finish: Path) -> list[int]:
    """Rounds with a changed register, and received signals."""
    finish.touch()
    out, complaint = process.communicate(timeout=60)
    assert not complaint
    return [int(word) for word in out.split()[-2:]]


def test_extended_state_survives_calls(native: Path, tmp_path: Path) -> None:
    """Vector, mask and x87 registers and MXCSR are after a call what they were before."""
    finish = tmp_path / "finish"
    with holding(native, finish) as process:
        spoil = spoil_address(process, native)
        for _ in range(100):
            result, stop_ns = ptrace.operate(
                process.pid, lambda thread: thread.call(spoil, timeout_s=1)
            )
            assert result == 4711
            assert stop_ns > 0
        assert counts(process, finish) == [0, 0]


def test_no_signal_is_lost(native: Path, tmp_path: Path) -> None:
    """Queued signals that arrive while the thread stands are all delivered, once each."""
    finish = tmp_path / "finish"
    sent = 0
    with holding(native, finish) as process:
        spoil = spoil_address(process, native)

        def send_and_call(thread: StoppedThread) -> int:
            for _ in range(3):
                os.kill(process.pid, signal.SIGRTMIN)
            return thread.call(spoil, timeout_s=1)

        for _ in range(50):
            os.kill(process.pid, signal.SIGRTMIN)  # may be on its way when we stop it
            ptrace.operate(process.pid, send_and_call)
            sent += 4
        assert counts(process, finish) == [0, sent]


def test_stop_signal_takes_effect_after_the_call(native: Path, tmp_path: Path) -> None:
    """A process that is paused while it stands is paused afterwards."""
    finish = tmp_path / "finish"
    with holding(native, finish) as process:
        spoil = spoil_address(process, native)

        def pause_and_call(thread: StoppedThread) -> int:
            os.kill(process.pid, signal.SIGSTOP)
            return thread.call(spoil, timeout_s=1)

        assert ptrace.operate(process.pid, pause_and_call)[0] == 4711
        wait_until(lambda: state_of(process.pid) == "T")
        process.send_signal(signal.SIGCONT)
        assert counts(process, finish) == [0, 0]


@pytest.mark.parametrize("address", [0x10, 0x7FFFFFFFF000])
def test_call_that_crashes_does_not_hurt_the_process(
    address: int, native: Path, tmp_path: Path
) -> None:
    """A call into nowhere raises here, and the process goes on unharmed."""
    finish = tmp_path / "finish"
    with holding(native, finish) as process:
        with pytest.raises(ptrace.CallFailed, match="ended with signal 11"):
            ptrace.operate(process.pid, lambda thread: thread.call(address, timeout_s=1))
        assert counts(process, finish) == [0, 0]


def test_call_that_hangs_is_given_up(native: Path, tmp_path: Path) -> None:
    """A call that does not come back in time is abandoned, and the process goes on."""
    finish = tmp_path / "finish"
    with holding(native, finish) as process:
        libc = elf.interpreter(process.pid).functions["mmap"]
        # A jump to itself, in memory that the process is given for it.
        endless = b"\xeb\xfe"

        def hang(thread: StoppedThread) -> int:
            page = thread.call(libc, 0, 4096, 7, 0x22, -1, 0, timeout_s=1)
            thread.write(page, endless)
            return thread.call(page, timeout_s=0.05)

        with pytest.raises(ptrace.CallFailed, match=r"did not answer within 0\.05 s"):
            ptrace.operate(process.pid, hang)
        assert counts(process, finish) == [0, 0]


def test_error_in_our_work_lets_the_process_go(native: Path, tmp_path: Path) -> None:
    """Whatever is raised while the thread stands, it goes on."""
    finish = tmp_path / "finish"

    def fail(_: StoppedThread) -> None:
        raise ZeroDivisionError

    with holding(native, finish) as process:
        with pytest.raises(ZeroDivisionError):
            ptrace.operate(process.pid, fail)
        assert counts(process, finish) == [0, 0]


def test_interrupt_waits_until_the_process_goes_on(native: Path, tmp_path: Path) -> None:
    """Ctrl-C while the thread stands is raised after the thread has been let go."""
    finish = tmp_path / "finish"
    done = []
    with holding(native, finish) as process:
        spoil = spoil_address(process, native)

        def interrupt_and_call(thread: StoppedThread) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            done.append(thread.call(spoil, timeout_s=1))

        with pytest.raises(KeyboardInterrupt):
            ptrace.operate(process.pid, interrupt_and_call)
        assert done == [4711]
        assert counts(process, finish) == [0, 0]


def test_death_of_the_process_is_reported_and_left_to_its_parent(
    native: Path, tmp_path: Path
) -> None:
    """A process killed while it stands raises TargetGone, and its parent sees the signal."""
    with holding(native, tmp_path / "finish") as process:
        spoil = spoil_address(process, native)

        def kill_and_call(thread: StoppedThread) -> int:
            os.kill(process.pid, signal.SIGKILL)
            return thread.call(spoil, timeout_s=1)

        with pytest.raises(ptrace.TargetGone):
            ptrace.operate(process.pid, kill_and_call)
        assert process.wait(timeout=60) == -signal.SIGKILL


@pytest.mark.parametrize(
    "look",
    [
        lambda pid: ptrace.operate(pid, lambda _: None),
        lambda pid: ptrace.read_memory(pid, 0, 1),
        lambda pid: ptrace.write_memory(pid, 0, b"0"),
    ],
)
def test_a_process_whose_parent_has_not_noticed_its_end_is_gone(
    look: Callable[[int], object],
) -> None:
    """It has no memory any more, and the error says that it has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(SpectraceError, match=f"There is no process {ended.pid}: it has ended"):
            look(ended.pid)


def test_process_is_untraced_afterwards(native: Path, tmp_path: Path) -> None:
    """After an operation no tracer, no thread of ours and no blocked signal is left."""
    finish = tmp_path / "finish"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with holding(native, finish) as process:
        ptrace.operate(process.pid, lambda _: None)
        assert "TracerPid:\t0\n" in Path(f"/proc/{process.pid}/status").read_text()
        assert "spectrace-ptrace" not in [thread.name for thread in threading.enumerate()]
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
        assert counts(process, finish) == [0, 0]
