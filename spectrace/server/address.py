"""Where to listen: addresses, sockets, and how an address is written for people."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import NamedTuple

from spectrace.errors import SpectraceError

DEFAULT_PORT = 7711
OTLP_HTTP_PORT = 4318
OTLP_GRPC_PORT = 4317
HOST = "127.0.0.1"
LOOPBACK = frozenset({"localhost", HOST, "::1"})
_PORTS_TRIED = 20


class Address(NamedTuple):
    """One address of this machine, or all of them.

    Attributes:
        family: AF_INET or AF_INET6.
        ip: The address.
    """

    family: socket.AddressFamily
    ip: str

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        return ipaddress.ip_address(self.ip).is_loopback

    @property
    def bare(self) -> str:
        """The address as it stands in a URL."""
        return f"[{self.ip}]" if ":" in self.ip else self.ip

    def name(self) -> str:
        """How others reach it, for a URL: the machine's name where it is all addresses."""
        everywhere = ipaddress.ip_address(self.ip).is_unspecified
        return socket.gethostname() if everywhere else self.bare


def resolve(host: str) -> Address:
    """The address that a name or an address on the command line means.

    Raises:
        SpectraceError: There is no such name.
    """
    if host == "localhost":
        return Address(socket.AF_INET, HOST)
    try:
        [(family, *_, where), *_] = socket.getaddrinfo(
            host.strip("[]"), 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise SpectraceError(
            f"There is no address {host}: choose one of this machine with --host, such as "
            f"{HOST} or 0.0.0.0."
        ) from error
    return Address(socket.AddressFamily(family), str(where[0]))


def listen(address: Address, port: int | None) -> socket.socket:
    """A listening socket for the page.

    Args:
        address: Of this machine.
        port: A port that has to be free, 0 for any; the first free one from `DEFAULT_PORT`
            on if not given.

    Raises:
        SpectraceError: The port is taken, or the address cannot be used.
    """
    if port is not None:
        return _bound(address, port) or _refuse(
            f"Port {port} is taken: choose another with --port."
        )
    tried = range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TRIED)
    free = next(filter(None, (_bound(address, one) for one in tried)), None)
    return free or _refuse(
        f"The ports from {tried[0]} to {tried[-1]} are taken: choose another with --port."
    )


def listen_for_spans(address: Address, port: int | None) -> socket.socket:
    """A listening socket for OTLP over HTTP.

    Args:
        address: Of this machine.
        port: As in `listen`; if not given `OTLP_HTTP_PORT`, or any where that is taken.

    Raises:
        SpectraceError: The port is taken, or the address cannot be used.
    """
    if port is None:
        return _bound(address, OTLP_HTTP_PORT) or listen(address, 0)
    return _bound(address, port) or _refuse(
        f"Port {port} is taken: choose another with --otlp-http-port."
    )


def _refuse(message: str) -> socket.socket:
    raise SpectraceError(message)


def _bound(address: Address, port: int) -> socket.socket | None:
    """A listening socket, None if the port is taken.

    Raises:
        SpectraceError: It cannot be used for another reason.
    """
    # Named as TCP, or asyncio does not switch Nagle's algorithm off: 40 ms for each answer.
    bound = socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((address.ip, port))
        bound.listen()
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            return None
        if error.errno == errno.EADDRNOTAVAIL:
            raise SpectraceError(
                f"{address.ip} is no address of this machine: choose one with --host, "
                "or 0.0.0.0 for all."
            ) from error
        raise SpectraceError(f"Port {port} cannot be used: {error.strerror}.") from error
    return bound
