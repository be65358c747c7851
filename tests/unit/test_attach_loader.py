"""The text that goes into the server: small, one statement, and harmless without its ring."""

from __future__ import annotations

import ast
import warnings

import pytest

from spectrace.attach import loader

PATH = "/dev/shm/spectrace-4194304-123456789012.ring"  # noqa: S108 - a name, no file


@pytest.mark.parametrize("address", [0, 0x7FFF12345000])
def test_text_is_one_expression_that_binds_no_name(address: int) -> None:
    """Run in __main__ the text leaves nothing there: it is a call of exec with its own dict."""
    (statement,) = ast.parse(loader.text(PATH, address).rstrip(b"\0")).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    _, namespace = statement.value.args
    assert isinstance(namespace, ast.Dict)
    assert [ast.literal_eval(key) for key in namespace.keys if key] == ["t"]


@pytest.mark.parametrize("address", [0, 0x7FFF12345000])
def test_inner_text_compiles_without_a_warning(address: int) -> None:
    """A warning would be printed by the server."""
    (statement,) = ast.parse(loader.text(PATH, address).rstrip(b"\0")).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile(ast.literal_eval(statement.value.args[0]), "<loader>", "exec")


def test_text_without_its_ring_does_nothing() -> None:
    """A loader that comes too late raises nothing."""
    namespace: dict[str, object] = {}
    exec(loader.text("/dev/shm/no-such.ring", 0).rstrip(b"\0"), namespace)  # noqa: S102, S108 - what is tested
    assert set(namespace) == {"__builtins__"}


def test_text_fits_its_page_and_ends_with_nul() -> None:
    """The text is a C string of less than a page."""
    text = loader.text(PATH, 0x7FFFFFFFF000)
    assert text.endswith(b"\0")
    assert len(text) < 1200


def test_path_that_does_not_fit_is_refused() -> None:
    """A path that would overflow the page is an error, not a broken text."""
    with pytest.raises(ValueError, match="too long"):
        loader.text("/" + "x" * loader.TEXT_BYTES, 0)


def test_path_with_quotes_survives() -> None:
    """Quotes in a path do not end the text early."""
    text = loader.text('/dev/shm/it\'s "odd"', 0).rstrip(b"\0")  # noqa: S108 - a name, no file
    assert r"it\\'s" in text.decode() or "it\\\\\\'s" in text.decode()
    ast.parse(text)
