"""Wraps functions of the server so that they mark phases, and puts the originals back."""

from __future__ import annotations

from functools import update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .recorder import Recorder

Function = Any  # whatever the server has there


class Patches:
    """The functions that stand wrapped at this moment."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[Any, str, Function, Function]] = []

    def put(self, holder: Any, name: str, make: Callable[[Function], Function]) -> bool:
        """Replaces the function `name` that `holder` itself has by `make(function)`.

        Args:
            holder: A module or a class.
            name: Name of the function in it.
            make: Gives the wrapper for the original.

        Returns:
            False, with nothing changed, if `holder` has no plain function of that name.
        """
        original = vars(holder).get(name)
        if not isinstance(original, FunctionType):
            return False
        wrapper = make(original)
        update_wrapper(wrapper, original)  # what others read off the function stays readable
        setattr(holder, name, wrapper)
        self._entries.append((holder, name, original, wrapper))
        return True

    def restore(self) -> list[str]:
        """Puts every original back where our wrapper still stands.

        Returns:
            The functions that somebody else wrapped or replaced meanwhile: they stay.
        """
        foreign = []
        while self._entries:
            holder, name, original, wrapper = self._entries.pop()
            if vars(holder).get(name) is wrapper:
                setattr(holder, name, original)
            else:
                foreign.append(f"{holder.__name__}.{name}")
        return foreign


def holder_of(kind: type, name: str) -> type | None:
    """The class in the MRO of `kind` that itself has `name`, None if there is none."""
    for ancestor in kind.__mro__:
        if name in vars(ancestor):
            return ancestor
    return None


def boundary(
    recorder: Recorder,
    enter: int,
    leave: int,
    note: Callable[[tuple[Any, ...]], None] | None = None,
) -> Callable[[Function], Function]:
    """Makes wrappers that begin phase `enter` at a call and `leave` at its return.

    Args:
        recorder: Whose cycle is marked.
        enter: Phase, or 0 to mark nothing at the call.
        leave: Phase, or 0 to mark nothing at the return.
        note: Called at entry with the positional arguments; must not raise.
    """
    mark = recorder.mark

    def make(original: Function) -> Function:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if recorder.timing:
                if enter:
                    mark(enter)
                if note is not None:
                    note(args)
            result = original(*args, **kwargs)
            if leave and recorder.timing:
                mark(leave)
            return result

        return wrapper

    return make


def before_call(recorder: Recorder, what: Callable[[], None]) -> Callable[[Function], Function]:
    """Makes wrappers that do `what` at each call while a cycle is timed; it must not raise."""

    def make(original: Function) -> Function:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if recorder.timing:
                what()
            return original(*args, **kwargs)

        return wrapper

    return make


def around_target(recorder: Recorder) -> Callable[[Function], Function]:
    """Makes wrappers that mark the target model's forward."""

    def make(original: Function) -> Function:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if recorder.timing:
                recorder.mark_target()
            result = original(*args, **kwargs)
            if recorder.timing:
                recorder.mark_target_done()
            return result

        return wrapper

    return make


def with_result(recorder: Recorder, what: Callable[[Any], None]) -> Callable[[Function], Function]:
    """Makes wrappers that show `what` what each call gave back; it must not raise."""

    def make(original: Function) -> Function:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if recorder.open:
                what(result)
            return result

        return wrapper

    return make


def after_call(recorder: Recorder, what: Callable[[], None]) -> Callable[[Function], Function]:
    """Makes wrappers that do `what` at each return while a cycle is timed; it must not raise."""

    def make(original: Function) -> Function:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if recorder.timing:
                what()
            return result

        return wrapper

    return make
