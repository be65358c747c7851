"""Why the kernel does not let us into a process, and what would let us."""

from __future__ import annotations

from typing import NamedTuple

from spectrace.attach.facts import Machine, Process

_ROOT_ALONE = 2
_NOBODY = 3

IN_A_CONTAINER = (
    "start the container with --cap-add SYS_PTRACE (docker, podman), or in Kubernetes with "
    'securityContext.capabilities.add: ["SYS_PTRACE"], and shareProcessNamespace: true if '
    "spectrace runs in another container of the pod"
)


class Obstacle(NamedTuple):
    """What keeps us from attaching to a process.

    Attributes:
        why: The reason, a phrase.
        mend: What takes it away.
    """

    why: str
    mend: str


def obstacle(machine: Machine, process: Process) -> Obstacle | None:
    """What keeps us from attaching to a process, None if nothing is known to.

    Args:
        machine: Where we run.
        process: One that we may not attach to, or of which that is not known.
    """
    for everyone in (_filter, _nobody):
        found = everyone(machine)
        if found is not None:
            return found
    if machine.may_trace_others:
        return _even_root(process)
    for one in (_user, _yama, _more_rights):
        found = one(machine, process)
        if found is not None:
            return found
    return None


def _filter(machine: Machine) -> Obstacle | None:
    if not machine.ptrace_refused:
        return None
    mend = "start the container with --security-opt seccomp=unconfined or --cap-add SYS_PTRACE"
    return Obstacle(
        "ptrace is forbidden here, even of a child of your own: by a filter of system calls "
        "(seccomp), or by SELinux's deny_ptrace",
        f"{mend}, or attach from the host; for SELinux: sudo setsebool deny_ptrace off",
    )


def _nobody(machine: Machine) -> Obstacle | None:
    if machine.ptrace_scope != _NOBODY:
        return None
    why = "Yama's ptrace_scope is 3: nobody may attach to anything, not even root"
    mend = "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and start the machine again"
    return Obstacle(why, f"{mend}: it cannot be changed while the machine runs")


def _even_root(process: Process) -> Obstacle | None:
    if process.may_attach is not False:
        return None
    why = "the kernel refuses though you have CAP_SYS_PTRACE: that is not of the server's user "
    mend = f"attach from the host: sudo spectrace attach {process.pid}, by its id there; "
    return Obstacle(
        f"{why}namespace, or a security module (AppArmor, SELinux) is in the way",
        f"{mend}journalctl -k or ausearch -m avc name what a security module refused",
    )


def _user(machine: Machine, process: Process) -> Obstacle | None:
    if process.uid == machine.uid:
        return None
    as_user = f"sudo -u {process.user} spectrace attach {process.pid}"
    why = f"it belongs to user {process.user}, and you are {machine.user}"
    return Obstacle(why, _as_root(machine, process, as_user))


def _yama(machine: Machine, process: Process) -> Obstacle | None:
    if not machine.ptrace_scope:
        return None
    who = "root alone" if machine.ptrace_scope == _ROOT_ALONE else "its own ancestors alone"
    why = f"Yama's ptrace_scope is {machine.ptrace_scope}: {who} may attach to a process"
    return Obstacle(why, _as_root(machine, process, "sudo sysctl kernel.yama.ptrace_scope=0"))


def _more_rights(machine: Machine, process: Process) -> Obstacle | None:
    if process.may_attach is not False:
        return None
    why = "the kernel refuses though the process is yours: it has more rights than you"
    return Obstacle(
        f"{why} (capabilities, another group, or a program that its users may not read)",
        _as_root(machine, process),
    )


def _as_root(machine: Machine, process: Process, other: str = "") -> str:
    """How to get the right to attach to any process; `other` is a way that fits the case."""
    if machine.container:
        return f"{IN_A_CONTAINER}; or attach from the host with sudo"
    sudo = f"sudo spectrace attach {process.pid or 'PID'}"
    if machine.no_new_privileges:
        sudo += " from another session, since this one cannot gain rights (no_new_privs)"
    return f"{sudo}, or {other}" if other else sudo
