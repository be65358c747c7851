"""The load of a sweep: requests over HTTP, a fixed number at a time, or a command of one's own."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec
import requests

from spectrace.attach.launched import end_group
from spectrace.cli.sweep_prompts import Prompt
from spectrace.errors import SpectraceError
from spectrace.hidden import HIDDEN, command_without_secrets, text_without_secrets

API_KEY = "SPECTRACE_API_KEY"  # the variable that holds what opens a server
_ANSWER_S = 1800.0  # one answer may take a while behind a queue
_HEALTH_S = 5.0
_NS_PER_S = 1e9
_JOIN_S = 5.0
_END_S = 10.0


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a load was.

    Attributes:
        begin_ns: UNIX time in ns from which on it counts: the warm-up was over.
        end_ns: UNIX time in ns until which it counts: there were no more requests to begin.
        requests: Answers that came in between; None where a command sends them.
        tokens: Tokens of these answers, likewise.
        tokens_per_s: The same for each second, as who sent them measured it.
    """

    begin_ns: int
    end_ns: int
    requests: int | None = None
    tokens: int | None = None
    tokens_per_s: float | None = None


class Load(Protocol):
    """What keeps a server busy meanwhile."""

    def start(self) -> None:
        """Begins; returns at once."""

    @property
    def pid(self) -> int | None:
        """The first process of its group; None where it has none of its own."""

    @property
    def over(self) -> bool:
        """It has come to its end, well or not."""

    def progress(self) -> str:
        """How far it has come, in words."""

    def stop(self) -> None:
        """Ends it where it stands."""

    def result(self) -> LoadResult:
        """What it was.

        Raises:
            SpectraceError: It did not come to a good end.
        """


class HttpLoad:
    """Requests to `/generate`: a fixed number is always under way.

    All are greedy by default and run to their full length, so that every setting has the same
    tokens to make. Those that warm up come first, without a pause behind them.

    Args:
        url: Address of the server.
        prompts: All requests in the order in which they are sent.
        warm_up: So many of them do not count.
        concurrency: How many are under way at a time.
        max_tokens: Tokens to generate where a prompt does not say.
        temperature: Of sampling; 0 is greedy.
        key: What opens the server, `--api-key` of its command; empty where nothing does.
    """

    def __init__(  # noqa: PLR0913 - what makes a load
        self,
        url: str,
        prompts: Sequence[Prompt],
        *,
        warm_up: int,
        concurrency: int,
        max_tokens: int,
        temperature: float = 0.0,
        key: str = "",
    ) -> None:
        self._url = url
        self._prompts = prompts
        self._warm_up = warm_up
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._key = key
        self._lock = threading.Lock()
        self._next = self._answered = 0
        self._begin_ns: int | None = None
        self._end_ns: int | None = None
        self._counted: list[int] = []  # tokens of the answers between the two
        self._problem = ""
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._work, name=f"load-{place}", daemon=True)
            for place in range(concurrency)
        ]

    def start(self) -> None:
        """Begins; returns at once."""
        if not self._warm_up:
            self._begin_ns = time.time_ns()
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> None:
        """It has no process of its own."""
        return

    @property
    def over(self) -> bool:
        """All requests are answered, or one failed."""
        return not any(thread.is_alive() for thread in self._threads)

    def progress(self) -> str:
        """How far it has come, in words."""
        return f"{self._answered} of {len(self._prompts)} requests"

    def stop(self) -> None:
        """Sends no more; answers under way are not waited for long."""
        self._stopped = True
        deadline_s = time.monotonic() + _JOIN_S
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline_s - time.monotonic()))

    def result(self) -> LoadResult:
        """What it was.

        Raises:
            SpectraceError: A request failed, or too few were answered.
        """
        if self._problem:
            raise SpectraceError(self._problem)
        if self._begin_ns is None or self._end_ns is None or self._end_ns <= self._begin_ns:
            raise SpectraceError(
                "The load was over before it counted: send more requests (--requests), or fewer "
                "at a time (--concurrency)."
            )
        tokens = sum(self._counted)
        return LoadResult(
            begin_ns=self._begin_ns,
            end_ns=self._end_ns,
            requests=len(self._counted),
            tokens=tokens,
            tokens_per_s=tokens / (self._end_ns - self._begin_ns) * _NS_PER_S,
        )

    def _work(self) -> None:
        with requests.Session() as session:
            session.trust_env = False  # a proxy must not stand between us and a server here
            if self._key:
                session.headers["Authorization"] = f"Bearer {self._key}"
            try:
                while (prompt := self._take()) is not None:
                    self._note(self._ask(session, prompt))
            except (requests.RequestException, ValueError, KeyError, TypeError) as error:
                self._problem = self._problem or f"A request failed: {_why(error, self._key)}."
                self._stopped = True

    def _take(self) -> Prompt | None:
        with self._lock:
            if self._stopped:
                return None
            if self._next == len(self._prompts):
                self._end_ns = self._end_ns or time.time_ns()
                return None
            self._next += 1
            return self._prompts[self._next - 1]

    def _note(self, tokens: int) -> None:
        with self._lock:
            self._answered += 1
            if self._begin_ns is not None and self._end_ns is None:
                self._counted.append(tokens)
            if self._answered == self._warm_up:
                self._begin_ns = time.time_ns()

    def _ask(self, session: requests.Session, prompt: Prompt) -> int:
        """Sends one and gives the number of its tokens."""
        body = {
            "text": prompt.text,
            "sampling_params": {
                "temperature": self._temperature,
                "max_new_tokens": prompt.max_tokens or self._max_tokens,
                "ignore_eos": True,
            },
        }
        answer = session.post(f"{self._url}/generate", json=body, timeout=_ANSWER_S)
        answer.raise_for_status()
        found: Any = answer.json()
        return int(found["meta_info"]["completion_tokens"])


class CommandLoad:
    """A command that sends requests until it ends.

    What begins and ends it is unknown: the first and the last tenth of its time do not count.

    Args:
        command: As in a shell; `{url}` stands for the address of the server, as the variable
            SPECTRACE_URL does.
        url: Address of the server.
        output: Where its output goes.
        key: What opens the server, for the variable SPECTRACE_API_KEY; empty where nothing does.
    """

    def __init__(self, command: str, url: str, output: Path, *, key: str = "") -> None:
        self._command = [part.replace("{url}", url) for part in shlex.split(command)]
        self._variables = {"SPECTRACE_URL": url, **({API_KEY: key} if key else {})}
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self._begin_ns = self._end_ns = 0

    def start(self) -> None:
        """Begins; returns at once.

        Raises:
            SpectraceError: It cannot be started.
        """
        self._begin_ns = time.time_ns()
        with self._output.open("wb") as output:
            self._process = _started(self._command, self._variables, output)

    @property
    def pid(self) -> int | None:
        """The first process of its group, once it was started."""
        return None if self._process is None else self._process.pid

    @property
    def over(self) -> bool:
        """It has ended."""
        if self._process is None or self._process.poll() is None:
            return False
        self._end_ns = self._end_ns or time.time_ns()
        return True

    def progress(self) -> str:
        """How far it has come, in words."""
        return f"the load runs for {(time.time_ns() - self._begin_ns) / _NS_PER_S:.0f} s"

    def stop(self) -> None:
        """Ends it and all that it started: by SIGTERM, and by force where that does not help."""
        if self._process is None:
            return
        end_group(self._process.pid, _END_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)

    def result(self) -> LoadResult:
        """What it was.

        Raises:
            SpectraceError: It ended with an error.
        """
        status = self._process.returncode if self._process else None
        if status != 0:
            shown = shlex.join(command_without_secrets(self._command))
            raise SpectraceError(
                f"The load {shown} ended with status {status}: its output is in {self._output}."
            )
        edge_ns = (self._end_ns - self._begin_ns) // 10
        return LoadResult(begin_ns=self._begin_ns + edge_ns, end_ns=self._end_ns - edge_ns)


def _started(
    command: Sequence[str], variables: Mapping[str, str], output: IO[bytes]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
            start_new_session=True,  # Ctrl-C is ours to pass on
        )
    except OSError as error:
        raise SpectraceError(
            f"The load {command[0]} cannot be started ({error.strerror}): --load takes a program "
            "and its arguments, without a shell."
        ) from None


def is_healthy(url: str) -> bool:
    """Whether a server answers there and says that it is well."""
    return _health(url) == HTTPStatus.OK


def is_taken(url: str) -> bool:
    """Whether anybody answers there at all."""
    return _health(url) is not None


def _health(url: str) -> int | None:
    try:
        with requests.Session() as session:
            session.trust_env = False
            return session.get(f"{url}/health", timeout=_HEALTH_S).status_code
    except requests.ConnectionError:
        return None
    except requests.RequestException:
        return 0  # somebody, who does not answer in time or not in HTTP


def _why(error: Exception, key: str) -> str:
    response = getattr(error, "response", None)
    if response is None:
        return f"{type(error).__name__}, {text_without_secrets(str(error))[:200]}"
    said = text_without_secrets(response.text.replace(key, HIDDEN) if key else response.text)
    why = f"status {response.status_code}, {said[:200].strip()!r}"
    if response.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        why += f"; if it wants a key, name that in {API_KEY} or with --api-key"
    return why


LoadMaker = Callable[[str, Path], Load]
