"""The token that whoever asks has to show: senders in a header, browsers in a cookie."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from spectrace.errors import SpectraceError

ASKED_FOR = (
    "A token is required: send it as `Authorization: Bearer …` "
    "(OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20…)."
)
"""What is said to a sender without it."""

_LEAST = 16
_ALLOWED = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, b64token
_BEARER = "bearer "


class Token:
    """A token, and all that is compared with it, in constant time.

    Args:
        text: 16 characters or more: letters, digits and `-._~+/`.

    Attributes:
        text: The same.
        cookie_name: Of the cookie by which a browser shows that it has shown the token; each
            token has its own, for cookies do not tell the ports of a machine apart.
        cookie_value: Its value, from which the token cannot be found.

    Raises:
        SpectraceError: The text is none that could be sent, or too short to be a secret.
    """

    def __init__(self, text: str) -> None:
        if len(text) < _LEAST or not _ALLOWED.fullmatch(text):
            raise SpectraceError(
                f"The token has to be {_LEAST} or more letters, digits or -._~+/: leave --token "
                "away and one is made, or make one with `openssl rand -hex 32`."
            )
        self.text = text
        self.cookie_name = f"spectrace-{self._derived('name')[:8]}"
        self.cookie_value = self._derived("page")

    @classmethod
    def make(cls) -> Token:
        """A token that nobody can guess."""
        return cls(secrets.token_urlsafe(32))

    def _derived(self, use: str) -> str:
        return hmac.new(self.text.encode(), use.encode(), hashlib.sha256).hexdigest()

    def equals(self, shown: str) -> bool:
        """Whether somebody has shown it."""
        return _same(self.text, shown)

    def is_shown_in(self, authorization: str) -> bool:
        """Whether an Authorization header shows it."""
        scheme, shown = authorization[: len(_BEARER)], authorization[len(_BEARER) :]
        return scheme.lower() == _BEARER and self.equals(shown.strip())

    def is_remembered_in(self, cookies: str) -> bool:
        """Whether a Cookie header shows that the browser has shown it before."""
        pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
        shown = next((value for name, _, value in pairs if name == self.cookie_name), "")
        return _same(self.cookie_value, shown)


def _same(secret: str, shown: str) -> bool:
    return hmac.compare_digest(secret.encode(), shown.encode(errors="replace"))
