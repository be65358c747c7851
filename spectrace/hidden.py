"""Hides what command lines and logs keep secret: keys, tokens, passwords, where they are named."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "…"

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.\-]*"
_SECRET_PARTS = frozenset({"auth", "authorization", "bearer", "keys", "pass", "pwd"})
_SECRET_ENDS = ("key", "token", "keyfile")
_SECRET_WORDS = re.compile("secret|passw|passphrase|credential")
# What is between quotes or brackets is bounded, and names begin where no other can: no text is
# looked at more than a few times.
_VALUE = re.compile(
    r"\"(?:[^\"\\]|\\.){0,4096}\"|'(?:[^'\\]|\\.){0,4096}'|\[[^\]]{0,4096}\]|[^\s,;&})]+"
)
_GIVEN = re.compile(
    rf"(?<![A-Za-z0-9_.\-])(-{{0,2}}{_NAME})(?:\\*[\"']?\s{{0,9}}=|\\*[\"']\s{{0,9}}:)\s{{0,9}}"
)
_OPTION = re.compile(rf"(?<![\w-])--({_NAME})\s{{1,9}}(?!--)")
_HEADER = re.compile(r"(?i)\b((?:proxy-)?authorization|x-api-key|api-key)(\s*:\s*)[^\"'\\]+")
_SCHEME = re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9+/=._~\-]{6,}")
_CREDENTIALS = re.compile(r"(?<=://)[^\s/@\"']+@")
_QUERY = re.compile(r"(?<=[?&])([^\s?&=\"']+)=[^\s?&\"')]+")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,20}://[^\s\"'<>]+")


def is_secret(name: str) -> bool:
    """Whether what stands behind a name is nobody's business.

    Args:
        name: Of an option, a variable or a field, such as `--admin-api-key` or `HF_TOKEN`.
    """
    lower = name.lower()
    parts = re.split(r"[^a-z0-9]+", lower)
    return (
        _SECRET_WORDS.search(lower) is not None
        or not _SECRET_PARTS.isdisjoint(parts)
        or any(part.endswith(_SECRET_ENDS) for part in parts)
    )


def command_without_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """A command whose secret values are hidden, one word for each of its own.

    Hidden is what stands behind an option of a secret name, in an assignment to such a variable,
    in such a field of JSON, and in an address before its host or in its query.

    Args:
        command: The program and its arguments.
    """
    shown = []
    hide = False
    for word in command:
        name, is_given, _ = word.partition("=")
        if hide and not word.startswith("--"):
            shown.append(HIDDEN)
            hide = False
            continue
        secret = re.fullmatch(rf"-*{_NAME}", name) is not None and is_secret(name)
        shown.append(f"{name}={HIDDEN}" if secret and is_given else text_without_secrets(word))
        hide = secret and not is_given and word.startswith("-")
    return tuple(shown)


def text_without_secrets(text: str) -> str:
    """A text, such as a line of a log, with the same hidden in it as in a command."""
    text = _ADDRESS.sub(_in_address, text)
    text = _HEADER.sub(rf"\1\2{HIDDEN}", text)
    text = _SCHEME.sub(rf"\1\2{HIDDEN}", text)
    return _without_values(_without_values(text, _GIVEN), _OPTION)


def _in_address(found: re.Match[str]) -> str:
    return _QUERY.sub(rf"\1={HIDDEN}", _CREDENTIALS.sub(f"{HIDDEN}@", found[0]))


def _without_values(text: str, names: re.Pattern[str]) -> str:
    """Hides what stands behind each secret name; quotes stay around it."""
    parts, end = [], 0
    for found in names.finditer(text):
        if found.start() < end or not is_secret(found[1]):
            continue
        value = _VALUE.match(text, found.end())
        if value is None:
            continue
        quote = value[0][0] if value[0][0] in "\"'" else ""
        parts.append(f"{text[end : found.end()]}{quote}{HIDDEN}{quote}")
        end = value.end()
    return "".join([*parts, text[end:]])
