"""The certificate that a server shows, and its key: read and tried before anybody connects."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

from spectrace.errors import SpectraceError


class Certificate(NamedTuple):
    """A certificate, with those that lead to its signer behind it, and its key; both PEM.

    Attributes:
        chain: The file of the certificates.
        key: The file of the key, without a passphrase.
    """

    chain: Path
    key: Path

    def check(self) -> None:
        """Tries whether a server can be made of them.

        Raises:
            SpectraceError: A file cannot be read, is none, or they do not belong together.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            for path in self:
                path.open("rb").close()  # for an error that names it: that of `ssl` does not
            context.load_cert_chain(self.chain, self.key, password=_no_passphrase)
        except (OSError, _LockedError) as error:  # what `ssl` raises is one of the first
            why = _reason(error)
            raise SpectraceError(
                f"{self.chain} and {self.key} make no TLS server ({why}): --tls-cert needs a PEM "
                "file with the certificate, --tls-key one with its key, without a passphrase.",
                exit_code=2,
            ) from error


class _LockedError(Exception):
    """The key has a passphrase: OpenSSL would ask the terminal for it."""


def _no_passphrase() -> str:
    raise _LockedError


def _reason(error: OSError | _LockedError) -> str:
    if isinstance(error, _LockedError):
        return "the key has a passphrase"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no PEM").lower().replace("_", " ")
    return f"{error.filename}: {error.strerror}"
