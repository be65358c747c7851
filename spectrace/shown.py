"""Makes what comes from elsewhere fit to be shown: addresses without secrets, words in measure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

MOST_WORDS = 200
"""So many characters of what somebody else says are shown."""

_CUT = "…"
_SURPLUS = 20  # times as much is looked at, so that the time that cleaning takes is bounded
_PAIR = re.compile(r"([^&;=]*)=[^&;]*")
# `user:password@` with or without a scheme (bounded, so that the search is); values of a query.
_CREDENTIALS = re.compile(r"(?<=://)[^\s/@]*@|[^\s/@:'\"(]{1,128}:[^\s/@]{1,128}@")
_QUERY = re.compile(r"([?&][^\s?&=]+)=[^\s?&'\")]+")


def words(text: str, most: int = MOST_WORDS) -> str:
    """What somebody else says, in one line that does nothing to a terminal and tells no secret.

    Controls, bidirectional marks and all else that has no picture of its own is left out, and so
    are the credentials of addresses.

    Args:
        text: As it came, of any length.
        most: So many characters it has at most, the last of which tells that it was cut.
    """
    looked_at = text[: _SURPLUS * most]
    kept = (one if one.isprintable() else " " if one.isspace() else "" for one in looked_at)
    line = _QUERY.sub(rf"\1={_CUT}", _CREDENTIALS.sub("", " ".join("".join(kept).split())))
    is_whole = len(line) <= most and len(text) == len(looked_at)
    return line if is_whole else line[: most - 1] + _CUT


def address(url: str) -> str:
    """An address as it may be shown: without user, password, fragment and the values of a query.

    Args:
        url: A URL, or `host:port`; what is none of both is taken for one that somebody mistyped.
    """
    head, _, query = url.partition("#")[0].partition("?")
    scheme, mark, rest = head.rpartition("://")
    host, slash, path = rest.partition("/")
    if not _is_sound(url):  # then a secret may stand anywhere before the last @
        shown = url.rpartition("@")[2] if "@" in url else head
        return words(shown.partition("?")[0])
    names = "&".join(_PAIR.sub(rf"\1={_CUT}", one) if "=" in one else _CUT for one in _split(query))
    shown = scheme + mark + host.rpartition("@")[2] + slash + path
    return words(f"{shown}?{names}" if query else shown)


def _split(query: str) -> list[str]:
    return query.replace(";", "&").split("&")


def _is_sound(url: str) -> bool:
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        _ = parts.port  # raises where it is no port
    except ValueError:
        return False
    return bool(parts.hostname)
