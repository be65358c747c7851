"""Finds SGLang servers, their ranks, and loops that trace themselves on this machine."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import psutil

from spectrace.attach import elf, loops, procfs
from spectrace.attach.loops import Loop
from spectrace.errors import SpectraceError
from spectrace.model import Rank, Run

_SCHEDULER = re.compile(r"sglang::scheduler(?:_(.*))?")
_RANK_PART = re.compile(r"[A-Z]+(?:_[A-Z]+)*\d+")
_LATER_ENGINE = re.compile(r"ENGINE(\d+) ")
_PYTHON = re.compile(r"python[\d.]*t?")
_SERVER_MODULE = re.compile(r"sglang\.(?:launch_server|srt\..+)")
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")  # of the interpreter
_OF_A_SERVER = re.compile(r"python|sglang")
_BETWEEN = "sglang::data_parallel_controller"
_ANCHOR_TRIES = 16
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SGLANG_PORT = 30000


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    command: tuple[str, ...]
    loop: Loop | None = None
    began: int = 0  # in clock ticks since boot

    @property
    def rank(self) -> str | None:
        """Its name as a rank, None if it is none."""
        if self.loop is not None:
            return self.loop.rank or "loop"
        return rank_name(self.title)

    @property
    def title(self) -> str:
        return self.command[0].rstrip() if self.command else ""


_Table = dict[int, _Process]


def find_by_pid(pid: int, *, check_rights: bool = True) -> Run:
    """Finds the server that a process belongs to.

    Args:
        pid: Any process of the server: the one that started it, a scheduler, the
            detokenizer, or the program that holds `sglang.Engine`; or a process with a
            `spectrace.loop.Tracer`.
        check_rights: Refuse a server whose ranks we may not look into.

    Returns:
        The server with all its ranks.

    Raises:
        SpectraceError: No such process, not a Python process, no SGLang in it or not yet,
            or one of another user.
    """
    if pid <= 0:
        raise SpectraceError(
            f"{pid} is no process id, which begin at 1: look at the servers with "
            "`spectrace status`."
        )
    table = _processes()
    if pid not in table:
        raise procfs.no_such_process(pid)
    roots = _roots(table)
    root = _root_of(pid, table, set(roots.values()))
    if root is None:
        raise _why_not(pid, table, roots)
    run = _run(root, table, roots)
    for rank in run.ranks if check_rights else ():
        procfs.require_rights(rank.pid)
    return run


def find_by_url(url: str) -> Run:
    """Finds the server that listens at an address of this machine.

    Args:
        url: Such as `http://127.0.0.1:30000`; `localhost:30000` will do.

    Returns:
        The server with all its ranks.

    Raises:
        SpectraceError: The address cannot be understood, is not of this machine, nobody
            listens there that we may see, or what listens is no SGLang server.
    """
    host, port = _host_and_port(url)
    addresses = _local_addresses(host, url)
    listeners = [
        connection
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
        and connection.laddr
        and connection.laddr.port == port
        and _serves(connection.laddr.ip, addresses)
    ]
    if not listeners:
        raise _nobody_listens(url, host, port)
    pids = sorted({connection.pid for connection in listeners if connection.pid})
    if not pids:
        raise SpectraceError(
            f"Somebody listens at {url}, but the kernel does not say who: run spectrace as the "
            "server's user or with sudo, or give the process id."
        )
    return find_by_pid(pids[0])


def list_runs() -> list[Run]:
    """All servers and traced loops that can be seen from here, the lowest process id first."""
    table = _processes()
    roots = _roots(table)
    runs = (_run_if_there(root, table, roots) for root in sorted(set(roots.values())))
    return [run for run in runs if run is not None]


def again(run: Run) -> Run:
    """Looks for ranks that a server has got since: loaded later, or of a second engine.

    Only the processes below the server are looked at: to be called every few seconds.

    Args:
        run: The server, as it was found.

    Returns:
        The same run. All ranks that it had stand first, under their names, also those that
        have ended; new ones follow. The very `run` where there are none.

    Raises:
        SpectraceError: The server has ended.
    """
    if _run_id(run.server_pid) != run.run_id:
        raise procfs.no_such_process(run.server_pid)
    table = _processes(_below(run.server_pid))
    roots = _roots(table)
    known = {rank.pid for rank in run.ranks}
    new = [pid for pid in _pids_of(run.server_pid, roots) if pid not in known]
    if not new:
        return run
    return msgspec.structs.replace(run, ranks=_ranks(new, table, run.ranks))


def rank_name(title: str) -> str | None:
    """The rank's name by its process title, None if it is no scheduler.

    SGLang leaves out of the title what there is only one of, so that a server with a single
    scheduler has a bare title (0.4 named `TP0` always).
    """
    found = _SCHEDULER.fullmatch(title)
    if found is None:
        return None
    return " ".join(_RANK_PART.findall(found[1] or "")) or "TP0"


# The tree of processes.


def _processes(pids: Iterable[int] | None = None) -> _Table:
    """Those of the given processes that can be seen; all of them by default."""
    processes = (_process(pid) for pid in (psutil.pids() if pids is None else pids))
    return {process.pid: process for process in processes if process is not None}


def _process(pid: int) -> _Process | None:
    try:
        return _Process(
            pid,
            procfs.parent(pid),
            procfs.command(pid),
            loops.loop_in(pid),
            procfs.start_ticks(pid),
        )
    except (SpectraceError, OSError):  # ended while we looked, or hidden from us
        return None


def _below(root: int) -> list[int]:
    """A process and all below it."""
    below: dict[int, list[int]] = {}
    for pid in psutil.pids():
        with suppress(SpectraceError, OSError):  # ended while we looked, or hidden from us
            below.setdefault(procfs.parent(pid), []).append(pid)
    line = [root]
    for pid in line:
        line += below.get(pid, [])
    return line


def _roots(table: _Table) -> dict[int, int]:
    """The root process of each scheduler."""
    roots = {}
    for process in table.values():
        if process.loop is not None:
            roots[process.pid] = _root_of_loop(process, table)
            continue
        if process.rank is None:
            continue
        above = table.get(process.parent)
        if above is not None and above.title == _BETWEEN:
            above = table.get(above.parent)
        if above is not None:
            roots[process.pid] = process.pid if _only_adopts(above) else above.pid
    return roots


def _root_of_loop(process: _Process, table: _Table) -> int:
    """The parent of loops that step together: of one name, each with its rank; else itself."""
    together = [
        other.loop.rank
        for other in table.values()
        if other.parent == process.parent
        and other.loop is not None
        and process.loop is not None
        and other.loop.name == process.loop.name
    ]
    alone = len(together) == 1 or len(set(together)) < len(together)
    return process.pid if alone else process.parent


def _only_adopts(process: _Process) -> bool:
    """Whether it is the init process, to which a scheduler falls when its server is killed.

    In a container the server itself may be process 1.
    """
    return process.pid == 1 and not _OF_A_SERVER.search(" ".join(process.command))


def _root_of(pid: int, table: _Table, roots: set[int]) -> int | None:
    """The root that the process is, stands below, or stands alone above."""
    below = next((ancestor for ancestor in _line(pid, table) if ancestor in roots), None)
    if below is not None:
        return below
    # A wrapper such as `uv run` or a shell: unless it holds several servers.
    above = [root for root in roots if pid in _line(root, table)]
    if len(above) > 1:
        raise SpectraceError(
            f"Below process {pid} there are {len(above)} SGLang servers: give the process id of "
            f"one of them ({', '.join(map(str, sorted(above)))})."
        )
    return above[0] if above else None


def _line(pid: int, table: _Table) -> list[int]:
    """The process and its ancestors, the nearest first."""
    line: list[int] = []
    while pid in table and pid not in line:
        line.append(pid)
        pid = table[pid].parent
    return line


def _is_starting(process: _Process) -> bool:
    """Whether it runs SGLang's server, also as what SGLang has given a title."""
    return process.title.startswith("sglang::") or is_server(process.command)


def is_server(command: tuple[str, ...]) -> bool:
    """Whether a command line starts SGLang's server, told by whole words.

    `python -m sglang.launch_server`, `sglang serve`; not what only names a file or module of
    SGLang, such as an editor.
    """
    program, *words = command or ("",)
    if _PYTHON.fullmatch(program.rpartition("/")[2]) is None:
        return False
    while words and words[0].startswith("-") and words[0] not in ("-c", "-m", "-"):
        del words[: 2 if words[0] in _OPTIONS_WITH_VALUE else 1]
    if words[:1] == ["-m"]:
        return any(_SERVER_MODULE.fullmatch(module) for module in words[1:2])
    script = words[0] if words else ""
    by_command = script.rpartition("/")[2] == "sglang" and words[1:2] == ["serve"]
    return by_command or script.endswith("sglang/launch_server.py")


def _starting(pid: int, table: _Table) -> int | None:
    """A server without schedulers that the process is, stands below, or stands above.

    Above all stands process 1, of which that says nothing.
    """
    line = _line(pid, table)
    below = [other for other in table if pid in _line(other, table)] if pid != 1 else []
    return next((near for near in (*line, *below) if _is_starting(table[near])), None)


def _why_not(pid: int, table: _Table, roots: dict[int, int]) -> SpectraceError:
    starting = _starting(pid, table)
    if starting is not None:
        return SpectraceError(
            f"SGLang in process {starting} is still starting: it has no scheduler yet. "
            "Attach when it answers requests."
        )
    procfs.require_rights(pid)
    if not procfs.is_alive(pid):
        return procfs.no_such_process(pid)
    if not elf.is_python(pid):
        what = (
            f"Process {pid} ({table[pid].title or 'without a command line'}) is no Python process"
        )
    else:
        what = f"Process {pid} is Python, but has no SGLang scheduler below it (yet)"
    others = ", ".join(str(root) for root in sorted(set(roots.values())))
    what_now = f"the SGLang servers here are {others}" if others else "no SGLang server runs here"
    return SpectraceError(f"{what}: {what_now}.")


# The run.


def _run_if_there(root: int, table: _Table, roots: dict[int, int]) -> Run | None:
    try:
        return _run(root, table, roots)
    except SpectraceError:  # ended while we looked
        return None


def _run(root: int, table: _Table, roots: dict[int, int]) -> Run:
    unix_ns, monotonic_ns = _anchor()
    return Run(
        run_id=_run_id(root),
        host=socket.gethostname(),
        server_pid=root,
        command=table[root].command,
        ranks=_ranks(_pids_of(root, roots), table),
        anchor_unix_ns=unix_ns,
        anchor_monotonic_ns=monotonic_ns,
    )


def _pids_of(root: int, roots: dict[int, int]) -> list[int]:
    """The schedulers below a root."""
    return [pid for pid, its_root in roots.items() if its_root == root]


def _ranks(pids: Iterable[int], table: _Table, known: tuple[Rank, ...] = ()) -> tuple[Rank, ...]:
    """The known ranks as they are, and the processes as ranks behind them.

    A program may hold several engines, or start one again: then a title comes twice, and the
    later process has the engine's number before its name.
    """
    names = {rank.name for rank in known}
    new = []
    for process in sorted((table[pid] for pid in pids), key=lambda one: (one.began, one.pid)):
        title = name = process.rank or ""
        engine = 1
        while name in names:
            engine += 1
            name = f"ENGINE{engine} {title}"
        names.add(name)
        new.append(Rank(name=name, pid=process.pid))
    return known + tuple(sorted(new, key=lambda rank: _order(rank.name)))


def _run_id(root: int) -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    identity = f"{boot} {root} {procfs.start_ticks(root)}"
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def _order(name: str) -> tuple[int, list[tuple[str, int]]]:
    """Sorts by engine, then by rank."""
    engine = _LATER_ENGINE.match(name)
    return int(engine[1]) if engine else 1, _natural(name)


def _natural(name: str) -> list[tuple[str, int]]:
    """Sorts TP2 before TP10."""
    return [(word, int(number)) for word, number in re.findall(r"(\D+)(\d+)", name)]


def _anchor() -> tuple[int, int]:
    """UNIX time and CLOCK_MONOTONIC of one moment, in ns: the closest of several readings."""
    readings = []
    for _ in range(_ANCHOR_TRIES):
        before = time.monotonic_ns()
        unix_ns = time.time_ns()
        after = time.monotonic_ns()
        readings.append((after - before, unix_ns, (before + after) // 2))
    return min(readings)[1:]


# Addresses.


def _host_and_port(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:  # a bracket without its twin, or what is no port
        host, port = None, None
    else:
        port = _DEFAULT_PORTS.get(parts.scheme) if port is None else port
    if not host or not port:
        raise SpectraceError(
            f"{url!r} is no address of a server: write it like http://127.0.0.1:{_SGLANG_PORT}."
        )
    return host, port


def _nobody_listens(url: str, host: str, port: int) -> SpectraceError:
    if f":{port}" not in url:
        return SpectraceError(
            f"Nobody listens at {host}, port {port}, on this machine: the address names no port, "
            f"and a server of SGLang listens at {_SGLANG_PORT} if not told otherwise; "
            f"add :{_SGLANG_PORT}."
        )
    return SpectraceError(
        f"Nobody listens at {url} on this machine: is the server up? If it runs in a "
        "container give the process id instead."
    )


def _local_addresses(host: str, url: str) -> set[str]:
    """The addresses behind a host name, all of this machine."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):  # not found, or too long to be looked for
        raise SpectraceError(
            f"The host of {url} is not known: write it like http://127.0.0.1:{_SGLANG_PORT}."
        ) from None
    local = {
        address.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
    }
    for address in found:
        known = ipaddress.ip_address(address.partition("%")[0])
        if not (known.is_loopback or known.is_unspecified or str(known) in local):
            raise SpectraceError(
                f"{url} is not on this machine ({os.uname().nodename}): attach works only where "
                "the server runs; start spectrace there."
            )
    return found


def _serves(listening: str, addresses: set[str]) -> bool:
    """Whether a socket that listens at `listening` answers at one of the addresses."""
    bare = listening.removeprefix("::ffff:")
    if ipaddress.ip_address(bare).is_unspecified:
        return True
    return bare in addresses or any(ipaddress.ip_address(a).is_unspecified for a in addresses)
