"""Opens a store, the hub around it and the server of its page, and closes them as one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from spectrace.metrics.meter import Meter
from spectrace.server.address import HOST
from spectrace.server.attacher import Attacher
from spectrace.server.hub import Hub
from spectrace.server.run import OtlpPorts, PageServer
from spectrace.server.tls import Certificate
from spectrace.server.token import Token
from spectrace.store.recording import open_recording
from spectrace.store.store import CycleStore

SHARED = (
    "This page asks for a token, since others use it too: it attaches to nothing. Use `spectrace "
    "attach PID` in a terminal."
)


@contextmanager
def open_page(  # noqa: PLR0913 - each is an option of the command
    *,
    retain_s: float,
    max_bytes: int,
    directory: Path | None = None,
    host: str = HOST,
    port: int | None = None,
    otlp: OtlpPorts | None = None,
    token: Token | None = None,
    certificate: Certificate | None = None,
    meter: Meter | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[Hub, PageServer]]:
    """A page for cycles that are still to come, at work until the block ends.

    Servers that it was asked to attach to are left then.

    Args:
        retain_s: Age in s up to which cycles are kept.
        max_bytes: Size of the store.
        directory: Where the store is kept; one that is removed at the end if not given.
        host: Where to listen; beyond loopback only with a token.
        port: A port that has to be free; the next free one from the default on if not given.
        otlp: Ports for spans; None for none but the page's own.
        token: What senders and browsers have to show.
        certificate: What it shows to them; None for no TLS.
        meter: Has the metrics; one of its own if not given.
        note: Is told what becomes of servers that the page attaches to.

    Raises:
        SpectraceError: The address, the port or the directory cannot be used.
    """
    with (
        store_directory(directory) as chosen,
        closing(CycleStore(chosen, retain_s=retain_s, max_bytes=max_bytes)) as store,
    ):
        hub = Hub(store, sink=store, meter=meter)
        attacher = Attacher(hub, note, refusal="" if token is None else SHARED)
        page = PageServer(
            hub,
            host=host,
            port=port,
            otlp=otlp,
            token=token,
            certificate=certificate,
            attacher=attacher,
        )
        # What is recorded ends when no more comes, and the page sees how servers are left.
        with closing(hub.recorder), page as server, closing(attacher):
            yield hub, server


@contextmanager
def open_receiver(store: CycleStore) -> Iterator[Hub]:
    """Receives spans over OTLP, on loopback, into a store that somebody else fills as well.

    Args:
        store: Where they go; nobody looks at its page.

    Raises:
        SpectraceError: There is no port to listen on.
    """
    hub = Hub(store, sink=store)
    with PageServer(hub, port=0, otlp=OtlpPorts()):
        yield hub


@contextmanager
def open_page_of_recording(
    path: Path, *, host: str = HOST, port: int | None = None
) -> Iterator[PageServer]:
    """The page of a saved file or of a store that was left behind.

    Args:
        path: What to show.
        host: As in `open_page`.
        port: The same.

    Raises:
        SpectraceError: The recording, the address or the port cannot be used.
    """
    with (
        closing(open_recording(path)) as recording,
        PageServer(Hub(recording), host=host, port=port) as server,
    ):
        yield server


@contextmanager
def store_directory(chosen: Path | None) -> Iterator[Path]:
    """The directory that was chosen, or one that is removed at the end."""
    if chosen is not None:
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="spectrace-") as directory:
        yield Path(directory)
