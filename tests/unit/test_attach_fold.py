"""The layout's numbers in place of their names, in the probe's texts."""

from __future__ import annotations

import pytest

from spectrace.attach import payload
from spectrace.attach.fold import Numbers, folded
from spectrace.probe import layout

LAYOUT = '''"""A layout."""

SIZE = 4096
OFFSET = SIZE + 1


class Word:
    """Words."""

    HEAD = 32  # where
    STATE = 33


SHAPE = (Word.HEAD, SIZE)


def half() -> int:
    return SIZE // 2
'''
MODULE = '''"""A module."""

from .layout import (
    SIZE,
    Word,
    half,
)

if True:
    from .layout import Word


def state(words: list[int], HEAD: int) -> int:
    return words[Word.STATE] + HEAD + SIZE + half() + other.SIZE + len("Word.HEAD")
'''
NUMBERS = Numbers.of(LAYOUT)


def test_what_is_a_number_is_found() -> None:
    """A number that stands there, and classes that hold such."""
    assert NUMBERS.plain == {"SIZE": 4096}
    assert NUMBERS.classes == {"Word": {"HEAD": 32, "STATE": 33}}


def test_the_layout_keeps_what_is_no_number() -> None:
    """On the lines on which it stood."""
    names: dict[str, object] = {}
    text = folded(LAYOUT, NUMBERS)
    exec(text, names)  # noqa: S102 - what a server will do
    assert (names["OFFSET"], names["SHAPE"]) == (4097, (32, 4096))
    assert "SIZE" not in names
    assert "Word" not in names
    lines = text.splitlines()
    assert [lines.index(line) for line in ("SHAPE = (32, 4096)", "def half() -> int:")] == [13, 16]
    assert len(lines) == len(LAYOUT.splitlines())


def test_a_module_has_the_numbers_of_what_it_imports() -> None:
    """Other things of these names stay what they are."""
    lines = folded(MODULE, NUMBERS).splitlines()
    assert lines[2] == "from .layout import half"
    assert lines[9] == "    pass"
    assert (
        lines[-1] == '    return words[33] + HEAD + 4096 + half() + other.SIZE + len("Word.HEAD")'
    )
    assert len(lines) == len(MODULE.splitlines())


def test_a_name_that_is_not_imported_is_another_one() -> None:
    """A module's own SIZE is not the layout's."""
    text = "SIZE = 1\nx = SIZE\n"
    assert folded(text, NUMBERS) == text


def test_a_class_as_a_whole_is_refused() -> None:
    """It would not be there."""
    with pytest.raises(ValueError, match="line 2: Word is used as a whole"):
        folded("from .layout import Word\nprint(Word)\n", NUMBERS)


def test_no_class_of_numbers_goes_into_a_server() -> None:
    """Nor the name of one; and a line of a module is the line of its file."""
    for name, text in payload.probe_sources():
        assert "Word." not in text.replace("`layout.Word.", "")
        written = payload.module_path(name).read_text("utf-8")
        assert text.count("\n") - written.count("\n") == (name == payload.ROWS_MODULE)
    names: dict[str, object] = {}
    exec(dict(payload.probe_sources())["layout"], names)  # noqa: S102 - what a server will do
    for name in set(names) - {"__builtins__", "annotations"}:
        if not callable(names[name]) and not name.startswith("__"):
            assert type(names[name]) is type(getattr(layout, name))
