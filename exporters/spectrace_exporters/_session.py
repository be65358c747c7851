"""What a session of `requests` takes: from the environment, and as an answer."""

from __future__ import annotations

import os

import requests
from requests.utils import get_environ_proxies

from spectrace_exporters._answer import BoundedAdapter
from spectrace_exporters._endpoint import is_loopback

_AUTHORITIES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def confine(session: requests.Session, endpoint: str) -> None:
    """Sets up a session that the official exporter has given its certificates.

    By itself `requests` lets REQUESTS_CA_BUNDLE go before OTEL_EXPORTER_OTLP_CERTIFICATE, and a
    .netrc before the headers, and reads whatever is answered.

    Args:
        session: Sends to one endpoint alone.
        endpoint: Its URL. A proxy of the environment does not get what is meant for this machine.
    """
    session.trust_env = False
    for scheme in ("http://", "https://"):
        session.mount(scheme, BoundedAdapter())
    session.headers["Accept-Encoding"] = "gzip, deflate"  # what can be unpacked within bounds
    if not is_loopback(endpoint):
        session.proxies.update(get_environ_proxies(endpoint))
    if session.verify is True:
        named = (os.environ.get(name) for name in _AUTHORITIES)
        session.verify = next(filter(None, named), True)
