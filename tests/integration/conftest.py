"""Endpoints that do not work, for what sends."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.helpers.ports import free_port


@pytest.fixture
def dead_url() -> str:
    """An endpoint on which nobody listens."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture
def mute_url() -> Iterator[str]:
    """An endpoint that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
