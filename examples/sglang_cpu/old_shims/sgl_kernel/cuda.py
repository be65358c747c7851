"""CUDA's streams and events for a machine without CUDA: nothing runs behind the host's back."""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import contextlib
from typing import Any

import torch


class Event:
    """Is always over."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take what `torch.cuda.Event` takes."""

    def record(self, _stream: Any = None) -> None:
        """Do nothing."""

    def wait(self, _stream: Any = None) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""

    def query(self) -> bool:
        """Return True: what was asked before it is done."""
        return True


class Stream:
    """Has nothing in it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take what `torch.cuda.Stream` takes."""

    def wait_stream(self, _other: Any) -> None:
        """Do nothing."""

    def wait_event(self, _event: Any) -> None:
        """Do nothing."""

    def record_event(self, event: Event | None = None) -> Event:
        """Return the event."""
        return event or Event()

    def synchronize(self) -> None:
        """Do nothing."""

    def query(self) -> bool:
        """Return True: it is empty."""
        return True


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def quieten() -> None:
    """Put all of this where the workers look for CUDA's."""
    cuda: Any = torch.cuda
    if cuda.is_available():
        return
    cuda.Stream, cuda.Event = Stream, Event
    cuda.synchronize = cuda.empty_cache = nothing
    cuda.current_stream = lambda *_, **__: Stream()
    cuda.stream = lambda _stream: contextlib.nullcontext()
    tensor: Any = torch.Tensor
    tensor.record_stream = nothing
