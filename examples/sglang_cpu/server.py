"""Starts and stops a real SGLang server with EAGLE-3 on a machine that has no GPU.

In a test: `with CpuServer(ServerOptions(scheduler="overlap")) as server: ...`. By hand:
`python examples/sglang_cpu/server.py --scheduler overlap --port 31002`, and Ctrl-C stops it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.sglang_cpu.install import InstallError
from examples.sglang_cpu.install_old import PACKAGES, make_current, overlay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from typing_extensions import Self

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parents[1] / ".venv-sglang" / "bin" / "python"
MODELS = HERE / ".models"
SHIMS = HERE / "shims"
OLD_SHIMS = HERE / "old_shims"
OVERLAP_PLUGIN = HERE / "overlap_plugin"

HOST = "127.0.0.1"
FREE_PORTS = range(31000, 32000)  # below the range from which the kernel takes ports by itself
# In an order of our own: others start servers too, and a server needs two ports.
_candidates = itertools.cycle(secrets.SystemRandom().sample(FREE_PORTS, len(FREE_PORTS)))
START_TIMEOUT_S = 240.0
STOP_GRACE_S = 10.0
KILL_TIMEOUT_S = 10.0
POLL_S = 0.1
TAIL_LINES = 30
SCHEDULER_TITLE = "sglang::scheduler"

# Loopback must not go through a proxy that the environment may name.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ServerError(Exception):
    """The server could not be started or stopped; the message says why, and what to do."""


@dataclass(frozen=True)
class ServerOptions:
    """What kind of server to start.

    Attributes:
        scheduler: "overlap" is SGLang's default in production, "plain" its simpler loop.
        tp: Tensor parallel ranks, one process each.
        port: Port of the API on loopback; None: a free one.
        speculative: False: plain decode, without a draft model.
        steps: Steps of a draft (`--speculative-num-steps`).
        topk: Branches of a draft (`--speculative-eagle-topk`).
        draft_tokens: Tokens to verify (`--speculative-num-draft-tokens`); with topk 1 it is
            steps + 1.
        release: An older release of SGLang, one of `install_old.PACKAGES`, which is unpacked if
            it is not there; empty for that of `.venv-sglang`. Its Triton kernels are
            interpreted: a few tokens a second. With "overlap" it runs the V2 worker, with
            "plain" the V1 worker.
        extra_args: More arguments for `sglang.launch_server`.
        extra_env: More variables for its environment.
    """

    scheduler: Literal["plain", "overlap"] = "plain"
    tp: int = 1
    port: int | None = None
    speculative: bool = True
    steps: int = 5
    topk: int = 1
    draft_tokens: int = 6
    release: str = ""
    extra_args: tuple[str, ...] = ()
    extra_env: Mapping[str, str] = field(default_factory=dict)


class Process(NamedTuple):
    """A process of this machine that has not ended."""

    pid: int
    parent: int
    group: int
    title: str


def free_port() -> int:
    """Return a port on loopback on which nobody listens, each time another one.

    Raises:
        ServerError: If there is none in `FREE_PORTS`.
    """
    for port in itertools.islice(_candidates, len(FREE_PORTS)):
        with socket.socket() as trial, contextlib.suppress(OSError):
            trial.bind((HOST, port))
            return port
    first, last = FREE_PORTS[0], FREE_PORTS[-1]
    raise ServerError(f"No port from {first} to {last} is free. Name another one as port.")


def arguments(options: ServerOptions, port: int, rendezvous_port: int) -> list[str]:
    """Return the arguments of `sglang.launch_server`.

    Args:
        options: What kind of server.
        port: Port of the API.
        rendezvous_port: Port at which the ranks find each other.
    """
    result = ["--host", HOST, "--port", str(port), "--nccl-port", str(rendezvous_port)]
    result += ["--model-path", str(MODELS / "target"), "--device", "cpu", "--dtype", "float32"]
    result += attention(options)
    result += ["--max-total-tokens", "8192", "--max-running-requests", "8"]
    result += ["--context-length", "1024", "--tp", str(options.tp)]
    if options.scheduler == "plain":
        result.append("--disable-overlap-schedule")
    if options.speculative:
        result += ["--speculative-algorithm", "EAGLE3"]
        result += ["--speculative-draft-model-path", str(MODELS / "draft")]
        result += ["--speculative-num-steps", str(options.steps)]
        result += ["--speculative-eagle-topk", str(options.topk)]
        result += ["--speculative-num-draft-tokens", str(options.draft_tokens)]
    return [*result, *options.extra_args]


def attention(options: ServerOptions) -> list[str]:
    """Return the arguments that choose how a server without a GPU attends."""
    if options.release:
        return ["--attention-backend", "triton", "--disable-cuda-graph", "--skip-server-warmup"]
    # Without AMX SGLang replaces `intel_amx` by `torch_native`, for which it has no draft backend.
    # It does so in the first of these flags only, hence the other two.
    result = ["--attention-backend", "torch_native"]
    result += ["--prefill-attention-backend", "intel_amx"]
    result += ["--decode-attention-backend", "intel_amx"]
    return result


def environment(options: ServerOptions, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the server.

    Args:
        options: What kind of server.
        inherited: The environment it is started from.
    """
    path = [str(SHIMS)]
    result = {
        **inherited,
        "SGLANG_USE_CPU_ENGINE": "1",
        "TORCH_COMPILE_DISABLE": "1",  # else the first draft compiles for 25 s
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "PYTHONWARNINGS": "ignore",
        "GLOO_SOCKET_IFNAME": "lo",
        "NO_PROXY": f"{HOST},localhost",
    }
    if options.tp > 1:
        result["SGLANG_CPU_OMP_THREADS_BIND"] = cores_of_ranks(options.tp)
    if options.release:
        path = [str(OLD_SHIMS), *path, str(overlay(options.release))]
        result["TRITON_INTERPRET"] = "1"
        result["SGLANG_ENABLE_SPEC_V2"] = str(int(options.scheduler == "overlap"))
    elif options.scheduler == "overlap":
        path.append(str(OVERLAP_PLUGIN))
        result["TRITON_INTERPRET"] = "1"
    result.update(options.extra_env)
    if result.get("PYTHONPATH"):
        path.append(result["PYTHONPATH"])
    result["PYTHONPATH"] = os.pathsep.join(path)
    return result


def cores_of_ranks(ranks: int) -> str:
    """Return one core for each rank, "0|1" for two, starting anew when there are too few.

    SGLang gives each rank a NUMA node of its own unless it is told.
    """
    cores = sorted(os.sched_getaffinity(0))
    return "|".join(str(cores[rank % len(cores)]) for rank in range(ranks))


def processes() -> Iterator[Process]:
    """Yield all processes of this machine that have not ended (zombies have)."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            # pid (name) state parent group ...; the name may have blanks and parentheses itself
            state, parent, group, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if state not in {"Z", "X"}:
                yield Process(int(folder.name), int(parent), int(group), title.strip())


def descendants(pid: int) -> list[Process]:
    """Return the children of a process, their children, and so on."""
    everyone = list(processes())
    family = [process for process in everyone if process.parent == pid]
    for member in family:  # grows while we walk it
        family += [process for process in everyone if process.parent == member.pid]
    return family


def wait_until_group_is_gone(group: int, timeout_s: float) -> bool:
    """Return whether no process of a process group is left after at most `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while any(process.group == group for process in processes()):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def prepare_models() -> None:
    """Build the models unless they are there and up to date.

    Raises:
        ServerError: If the environment is missing or the models cannot be built.
    """
    if not PYTHON.is_file():
        raise ServerError(f"{PYTHON} is missing. Run python {HERE / 'install.py'} first.")
    script, stamp = HERE / "make_models.py", MODELS / "stamp"
    wanted = hashlib.sha256(script.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    done = subprocess.run([PYTHON, script], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServerError(f"{done.stderr}\nThe models could not be built. Run {script} by hand.")


def prepare_release(release: str) -> None:
    """Unpack an older release unless it is there.

    Args:
        release: One of `install_old.PACKAGES`, or empty.

    Raises:
        ServerError: If there is none of that name, or it cannot be unpacked.
    """
    if not release:
        return
    if release not in PACKAGES:
        raise ServerError(f"No old release {release}: {', '.join(PACKAGES)} are known.")
    try:
        make_current(release)
    except InstallError as error:
        raise ServerError(str(error)) from error


class CpuServer:
    """A server in a process session of its own; a context manager.

    It is killed when the thread that started it ends, so start it from the main thread.
    """

    def __init__(
        self,
        options: ServerOptions | None = None,
        *,
        log_path: Path | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """Set up a server, without starting it.

        Args:
            options: What kind of server; None: the defaults.
            log_path: Where its output goes; None: a temporary file, removed at the end.
            start_timeout_s: Seconds until it must answer.
        """
        self.options = options or ServerOptions()
        self._start_timeout_s = start_timeout_s
        self._log_path = log_path
        self._log_is_ours = log_path is None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._startup_s = 0.0

    def __enter__(self) -> Self:
        """Start it, see `start`."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it, see `stop`."""
        self.stop()

    @property
    def pid(self) -> int:
        """Process id of `sglang.launch_server`, the parent of all others.

        Raises:
            ServerError: If the server is not running.
        """
        if self._process is None:
            raise ServerError("The server is not running. Call start first.")
        return self._process.pid

    @property
    def url(self) -> str:
        """Address of the API, without a slash at the end."""
        return f"http://{HOST}:{self._port}"

    @property
    def log_path(self) -> Path:
        """File with the server's output.

        Raises:
            ServerError: If there is none yet.
        """
        if self._log_path is None:
            raise ServerError("The server has no log yet. Call start first.")
        return self._log_path

    @property
    def startup_s(self) -> float:
        """Seconds from the start of the process to the first answer."""
        return self._startup_s

    def scheduler_pids(self) -> list[int]:
        """Return the process ids of the schedulers, in the order of their ranks."""
        found = [p for p in descendants(self.pid) if p.title.startswith(SCHEDULER_TITLE)]
        return [p.pid for p in sorted(found, key=lambda p: (len(p.title), p.title))]

    def is_running(self) -> bool:
        """Return whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            ServerError: If it cannot be started, ends, or does not answer in time; nothing is left
                running then, and the log is kept.
        """
        if self._process is not None:
            raise ServerError("The server is running already. Call stop before starting it again.")
        prepare_models()
        prepare_release(self.options.release)
        begin = time.monotonic()
        self._launch()
        try:
            self._wait_until_healthy(begin + self._start_timeout_s)
        except BaseException:
            self._log_is_ours = False
            self.stop()
            raise
        self._startup_s = time.monotonic() - begin

    def stop(self) -> None:
        """End all processes of the server: politely first, then by force. Without one: nothing.

        Raises:
            ServerError: If a process survives even that.
        """
        if self._process is None:
            return
        process, self._process = self._process, None
        try:
            end_group(process)
        finally:
            if self._log_is_ours:
                self.log_path.unlink(missing_ok=True)
                self._log_path = None

    def _launch(self) -> None:
        """Start the process, with its output going to the log."""
        self._port = self.options.port or free_port()
        if self._log_path is None:
            handle, name = tempfile.mkstemp(prefix="sglang-cpu-", suffix=".log")
            os.close(handle)
            self._log_path = Path(name)
        guard = [str(PYTHON), str(HERE / "die_with_parent.py"), str(os.getpid())]
        server = [str(PYTHON), "-m", "sglang.launch_server"]
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [*guard, *server, *arguments(self.options, self._port, free_port())],
                env=environment(self.options, os.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait_until_healthy(self, deadline: float) -> None:
        """Return when the server answers; raise ServerError when it ends or time is up."""
        while not answers(self.url):
            if not self.is_running():
                raise ServerError(self._failure("ended while starting"))
            if time.monotonic() > deadline:
                raise ServerError(self._failure(f"gave no answer in {self._start_timeout_s:.0f} s"))
            time.sleep(POLL_S)

    def _failure(self, event: str) -> str:
        """Return a message with the tail of the log."""
        tail = "\n".join(self.log_path.read_text(errors="replace").splitlines()[-TAIL_LINES:])
        return f"{tail}\nThe server {event}. Its whole log is {self.log_path}."


def answers(url: str) -> bool:
    """Return whether the server at an address says that it is healthy."""
    try:
        with _opener.open(f"{url}/health", timeout=10):
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def end_group(leader: subprocess.Popen[bytes], grace_s: float = STOP_GRACE_S) -> None:
    """End the process group that a child of ours leads, and reap the child.

    Args:
        leader: The child, started in a session of its own.
        grace_s: Seconds that it has to end by itself.

    Raises:
        ServerError: If a process of the group survives SIGKILL.
    """
    leader.terminate()  # to it alone: it takes the end of a scheduler for a crash
    if not wait_until_group_is_gone(leader.pid, grace_s):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, signal.SIGKILL)
        if not wait_until_group_is_gone(leader.pid, KILL_TIMEOUT_S):
            left = [process.pid for process in processes() if process.group == leader.pid]
            raise ServerError(f"Processes {left} survive SIGKILL. Look at their state in /proc.")
    leader.wait()


def parse_arguments() -> tuple[ServerOptions, Path | None]:
    """Return what the command line asks for."""
    default = ServerOptions()
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="Further arguments go to sglang.launch_server as they are."
    )
    parser.add_argument("--scheduler", choices=["plain", "overlap"], default=default.scheduler)
    parser.add_argument("--tp", type=int, default=default.tp, help="tensor parallel ranks")
    parser.add_argument("--port", type=int, help="port on loopback (default: a free one)")
    parser.add_argument("--steps", type=int, default=default.steps)
    parser.add_argument("--topk", type=int, default=default.topk)
    parser.add_argument("--draft-tokens", type=int, default=default.draft_tokens)
    parser.add_argument("--no-speculation", action="store_true", help="plain decode, no draft")
    parser.add_argument("--release", default=default.release, help=f"old: {', '.join(PACKAGES)}")
    parser.add_argument("--log", type=Path, help="file for the server's output")
    given, extra = parser.parse_known_args()
    options = ServerOptions(
        scheduler=given.scheduler,
        tp=given.tp,
        port=given.port,
        speculative=not given.no_speculation,
        steps=given.steps,
        topk=given.topk,
        draft_tokens=given.draft_tokens,
        release=given.release,
        extra_args=tuple(extra),
    )
    return options, given.log


def run(server: CpuServer) -> int:
    """Run a server until Ctrl-C or its own end; return the exit status."""
    with server:
        print(f"{server.url}  up after {server.startup_s:.0f} s", flush=True)
        print(f"pid {server.pid}, schedulers {server.scheduler_pids()}", flush=True)
        print(f"log {server.log_path}\nCtrl-C stops it.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while server.is_running():
                time.sleep(POLL_S)
            print("The server has ended by itself.", file=sys.stderr)
            return 1
    print("stopped")
    return 0


def main() -> int:
    """Run the command line; return the exit status."""
    options, log_path = parse_arguments()
    for number in (signal.SIGINT, signal.SIGTERM):  # a background job of a shell ignores SIGINT
        signal.signal(number, signal.default_int_handler)
    try:
        return run(CpuServer(options, log_path=log_path))
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
