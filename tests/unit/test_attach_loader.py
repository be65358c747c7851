"""The text that goes into the server: small, one statement, and harmless without its ring."""

from __future__ import annotations

import ast
import marshal
import warnings

import pytest

from spectrace.attach import loader

PATH = "/dev/shm/spectrace-4194304-123456789012.ring"  # noqa: S108 - a name, no file


COMPILED = marshal.dumps(compile(loader.source(), "<loader>", "exec"))


@pytest.mark.parametrize("compiled", [b"", COMPILED])
def test_text_is_one_expression_that_binds_no_name(compiled: bytes) -> None:
    """Run in __main__ the text leaves nothing there: it is a call of exec with its own dict."""
    (statement,) = ast.parse(loader.Text(PATH, compiled).at(0x7FFF12345000).rstrip(b"\0")).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert isinstance(statement.value.func, ast.Lambda)
    call = statement.value.func.body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    assert call.func.id == "exec"
    assert isinstance(call.args[1], ast.Dict)


def test_what_is_compiled_gives_no_warning() -> None:
    """A warning would be printed by the server."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile(loader.source(), "<loader>", "exec")
        compile(loader.Text(PATH, COMPILED).at(0).rstrip(b"\0"), "<loader>", "exec")


@pytest.mark.parametrize("compiled", [b"", COMPILED])
def test_text_without_its_ring_does_nothing(compiled: bytes) -> None:
    """A loader that comes too late raises nothing."""
    namespace: dict[str, object] = {}
    exec(loader.Text("/dev/shm/no-such.ring", compiled).at(0).rstrip(b"\0"), namespace)  # noqa: S102, S108 - what is tested
    assert set(namespace) == {"__builtins__"}


@pytest.mark.parametrize("compiled", [b"", COMPILED])
def test_text_fits_its_pages_and_ends_with_nul(compiled: bytes) -> None:
    """The text is a C string with room for a path ten times as long."""
    text = loader.Text(PATH, compiled).at(0x7FFFFFFFF000)
    assert text.endswith(b"\0")
    assert len(text) + 9 * len(PATH) < loader.TEXT_BYTES


def test_path_that_does_not_fit_is_refused() -> None:
    """A path that would overflow the page is an error, not a broken text."""
    with pytest.raises(ValueError, match="too long"):
        loader.Text("/" + "x" * loader.TEXT_BYTES)


def test_path_with_quotes_survives() -> None:
    """Quotes in a path do not end the text early."""
    path = '/dev/shm/it\'s "odd"'  # noqa: S108 - a name, no file
    tree = ast.parse(loader.Text(path).at(0).rstrip(b"\0"))
    assert path in [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
