"""Certificates for tests, made by OpenSSL: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from spectrace.server.tls import Certificate

_KIND = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2")


def make_authority(folder: Path, name: str = "authority") -> Certificate:
    """One that signs itself, good for today."""
    return _make(folder, name, ["-subj", f"/CN={name}"])


def make_certificate(
    folder: Path, signer: Certificate | None, name: str = "server", passphrase: str = ""
) -> Certificate:
    """One for this machine's own addresses.

    Args:
        folder: Where its files go.
        signer: Who signs it; None for itself.
        name: Of the files.
        passphrase: That its key gets.
    """
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    signed = [] if signer is None else ["-CA", str(signer.chain), "-CAkey", str(signer.key)]
    return _make(folder, name, [*names, *signed], passphrase)


def _make(folder: Path, name: str, more: list[str], passphrase: str = "") -> Certificate:
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    lock = ["-passout", f"pass:{passphrase}"] if passphrase else ["-nodes"]
    files = ["-keyout", str(made.key), "-out", str(made.chain)]
    subprocess.run(
        ["openssl", "req", "-x509", *_KIND, *lock, *more, *files],  # noqa: S607 - wherever it lies
        check=True,
        capture_output=True,
    )
    return made
