"""Refuses to send to the page of this very command, which has it all already."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import urlsplit

from spectrace.errors import SpectraceError
from spectrace.server.address import LOOPBACK
from spectrace.shown import address

_HERE = LOOPBACK | {"0.0.0.0", "::"}  # noqa: S104 - as a target these are this machine


class Target(NamedTuple):
    """Where something is to be sent.

    Attributes:
        endpoint: A URL, or `host:port` as gRPC has it.
        option: What named it.
        what: What is sent there.
    """

    endpoint: str
    option: str
    what: str


def refuse_own_page(
    target: Target, ports: Collection[int], *, hosts: Collection[str] = (), way_out: str = ""
) -> None:
    """Refuses a target that is the page, or a receiver of it.

    Args:
        target: Where to send.
        ports: Of the page and its receivers.
        hosts: Names of this machine beside those of loopback.
        way_out: A clause on what else may be done than name another address.

    Raises:
        SpectraceError: The target is the page.
    """
    endpoint, option, what = target
    parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    host = (parts.hostname or "").removesuffix(".")
    here = host in _HERE or host in hosts or host.startswith("127.")
    if here and parts.port in ports:
        raise SpectraceError(
            f"{option} {address(endpoint)} is the page of this command, which has the {what} "
            f"already: name another address, or leave the option away{way_out}.",
            exit_code=2,
        )
