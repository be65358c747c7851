"""Asks a spectrace at work for its report: only who owns a store can read it."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import requests

from spectrace.analysis.run_report import RunReport
from spectrace.errors import SpectraceError

_PATIENCE_S = 60.0
_OK = 200


def asked(url: str, *, run_id: str = "", baseline_ms: float | None = None) -> RunReport:
    """The report that the page at an address makes of what it has stored.

    Args:
        url: Of the page, such as http://127.0.0.1:7711.
        run_id: How the id of the run begins; the one with the most cycles if not given.
        baseline_ms: A plain decode in ms, as a person says.

    Raises:
        SpectraceError: Nobody answers there, there is no such run, or it has no cycles.
    """
    base = url.rstrip("/")
    state = msgspec.json.decode(_get(f"{base}/api/state", {}))
    known = {run["run"]: run["stored"]["cycles"] for run in state["runs"]}
    fitting = [key for key in known if key.startswith(run_id)]
    if not fitting:
        raise SpectraceError(
            f"{url} has no run {run_id}: it has {', '.join(key[:8] for key in known) or 'none'}."
        )
    chosen = max(fitting, key=lambda key: known[key])
    given = {} if baseline_ms is None else {"baseline_ms": str(baseline_ms)}
    raw = _get(f"{base}/api/runs/{chosen}/report", given)
    try:
        return msgspec.json.decode(raw, type=RunReport)
    except msgspec.DecodeError as error:
        raise SpectraceError(
            f"The spectrace at {url} is of another version than this one: use the same."
        ) from error


def _get(url: str, query: dict[str, str]) -> bytes:
    token = os.environ.get("SPECTRACE_TOKEN")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with requests.Session() as session:
        session.trust_env = False  # a proxy knows nothing of this machine's loopback
        try:
            answer = session.get(url, params=query, headers=headers, timeout=_PATIENCE_S)
        except requests.RequestException as error:
            raise SpectraceError(
                f"No spectrace answers at {url} ({type(error).__name__}): name the address of its "
                "page, as `spectrace attach` prints it."
            ) from error
    if answer.status_code != _OK:
        raise SpectraceError(f"{url} refuses: {_reason(answer)}")
    return answer.content


def _reason(answer: requests.Response) -> str:
    try:
        told: Any = answer.json()
    except ValueError:
        return answer.text.strip()[:200] or answer.reason
    return str(told.get("detail", told) if isinstance(told, dict) else told)[:500]
