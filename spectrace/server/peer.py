"""Tells whose process is at the other end of a connection from this machine."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_WORD_BYTES = 4
_LOCAL, _REMOTE, _STATE, _UID = 1, 2, 3, 7  # places in a line, see proc_net_tcp of the kernel
_ESTABLISHED = "01"  # of one that its process has closed the kernel says that root owns it


def owner_of(peer: tuple[str, int], here: tuple[str, int]) -> int | None:
    """The user whose process connected.

    Args:
        peer: Address and port of the other end.
        here: Those of our end.

    Returns:
        The user's number as the kernel keeps it for the socket; None for a connection from
        elsewhere, or one whose other end is closed: nobody is known to own that any more.
    """
    addresses = [ipaddress.ip_address(address) for address, _ in (peer, here)]
    table = _TABLES[max(address.version for address in addresses)]
    try:
        lines = table.read_text("ascii").splitlines()[1:]
    except OSError:
        return None
    theirs, ours = (
        f"{_as_the_kernel(address.packed)}:{port:04X}"
        for address, (_, port) in zip(addresses, (peer, here), strict=True)
    )
    for line in lines:
        fields = line.split()
        if (fields[_LOCAL], fields[_REMOTE]) == (theirs, ours):
            return int(fields[_UID]) if fields[_STATE] == _ESTABLISHED else None
    return None


def _as_the_kernel(packed: bytes) -> str:
    """An address as its tables write it: words in the machine's own order, in hexadecimal."""
    words = (packed[at : at + _WORD_BYTES] for at in range(0, len(packed), _WORD_BYTES))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
