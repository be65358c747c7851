"""What comes from elsewhere is shown without secrets, and does nothing to a terminal."""

from __future__ import annotations

import pytest

from spectrace.shown import address, words


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("no such tenant", "no such tenant"),
        ("\x1b[31mred\x1b[0m\x00\x07", "[31mred[0m"),
        ("one\r\ntwo\tthree\u2028four", "one two three four"),
        ("abc\u202egpj.exe\u2066\u200b\ufeff", "abcgpj.exe"),
        ("\x9b2J lone \udc80", "2J lone"),
        ("größer, 大きい", "größer, 大きい"),
        ("DNS failed for ann:s3cret@host:4317", "DNS failed for host:4317"),
        (
            "http://ann:s3cret@host/x?api_key=s3cret&y=s3cret is no",
            "http://host/x?api_key=…&y=… is no",
        ),
        ("Export to 'ann:s3cret@host'", "Export to 'host'"),
    ],
)
def test_words_of_others_are_one_clean_line(said: str, shown: str) -> None:
    """Without controls, marks of direction, and credentials; letters stay."""
    assert words(said) == shown


@pytest.mark.parametrize("size", [201, 4001, 3_000_000])
def test_words_of_others_are_cut(size: int) -> None:
    """To 200 characters, the last of which says so."""
    assert words("x" * size) == "x" * 199 + "…"
    assert words("x" * 200) == "x" * 200


def test_what_was_not_looked_at_counts_as_cut() -> None:
    """Nothing but controls as far as it is read is no whole answer."""
    assert words("\x00" * 3_000_000 + "end") == "…"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host:4318/v1/traces", "http://host:4318/v1/traces"),
        ("http://ann:s3cret@host:4318/v1", "http://host:4318/v1"),
        ("https://s3cret@[::1]:4318", "https://[::1]:4318"),
        ("http://host/p?api_key=s3cret&tenant=s3cret", "http://host/p?api_key=…&tenant=…"),
        ("http://host?s3cret", "http://host?…"),
        ("http://host/p?a=s3cret=s3cret@x;b=s3cret#s3cret", "http://host/p?a=…&b=…"),
        ("http://host/a@b", "http://host/a@b"),
        ("ann:s3cret@host:4317", "host:4317"),
        ("host:4317", "host:4317"),
        ("http://ann:s3/cret@host:1/p?k=s3cret", "host:1/p"),
        ("ftp//ann:s3cret@host", "ftp//host"),
        ("there", "there"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    """Neither user nor password, nor what a query says; where it leads stays."""
    assert address(url) == shown
