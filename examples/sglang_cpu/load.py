"""Sends greedy requests to an SGLang server and reports what each answer says about speculation.

By hand: `python examples/sglang_cpu/load.py http://127.0.0.1:31002 --requests 20`, or with
`--seconds 60` a steady load.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Self

REQUEST_TIMEOUT_S = 300.0
LENGTHS = 7  # requests differ in length, so that they do not end all at once
KEPT_ANSWERS = 10_000

# A tiny model's text depends on the last token alone: many different ends, many different texts.
OPENINGS = (
    "def main():",
    "import json",
    "class Encoder",
    "return x + 1 for all the values",
    "try:\n    pass",
    "The first string",
    "a list of numbers",
    "while True",
    "the decoder",
    "raise ValueError",
    "an object that",
)

# How SGLang has named these counts: from 0.5.12 on, in 0.5.11, before.
CORRECT_DRAFTS = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")

# Loopback must not go through a proxy that the environment may name.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Answer:
    """A finished request, with the server's own counts.

    Attributes:
        request_id: The id it was sent with.
        token_ids: Tokens of the answer.
        completion_tokens: Number of tokens, the prefill's one included.
        verify_count: Verifies it took part in (`spec_verify_ct`).
        correct_drafts: Draft tokens accepted (`spec_num_correct_drafts`).
        correct_drafts_histogram: At index k the verifies that accepted k draft tokens
            (`spec_correct_drafts_histogram`).
        accept_length: Completion tokens / verifies (`spec_accept_length`).
        text: The answer's text.

    Without speculation the counts are 0, the histogram is empty and the accept length is 0.
    """

    request_id: str
    token_ids: tuple[int, ...]
    completion_tokens: int
    verify_count: int
    correct_drafts: int
    correct_drafts_histogram: tuple[int, ...]
    accept_length: float
    text: str


def prompt(index: int) -> str:
    """Return the prompt of a request: openings in turn, each round of them with a number before."""
    round_number, opening = divmod(index, len(OPENINGS))
    return f"{round_number} {OPENINGS[opening]}"


def first_of(meta: dict[str, Any], names: tuple[str, ...], otherwise: Any) -> Any:
    """Return what stands under the first of the names that is there, else `otherwise`."""
    return next((meta[name] for name in names if name in meta), otherwise)


def parse(reply: dict[str, Any]) -> Answer:
    """Return the answer that a reply of `/generate` contains.

    Args:
        reply: The decoded JSON.

    Raises:
        KeyError: If it is no such reply.
    """
    meta = reply["meta_info"]
    return Answer(
        request_id=meta["id"],
        token_ids=tuple(reply["output_ids"]),
        completion_tokens=meta["completion_tokens"],
        verify_count=meta.get("spec_verify_ct", 0),
        correct_drafts=first_of(meta, CORRECT_DRAFTS, 0),
        correct_drafts_histogram=tuple(first_of(meta, HISTOGRAM, ())),
        accept_length=meta.get("spec_accept_length", 0.0),
        text=reply["text"],
    )


def sampling(max_new_tokens: int) -> dict[str, Any]:
    """Return the parameters of a greedy request that the end-of-text token does not end."""
    return {"temperature": 0, "max_new_tokens": max_new_tokens, "ignore_eos": True}


def ask(
    url: str,
    *,
    request_id: str,
    text: str,
    max_new_tokens: int,
    further: Mapping[str, Any] | None = None,
) -> Answer:
    """Send one greedy request and wait for its answer.

    Args:
        url: Address of the server, as `http://HOST:PORT`.
        request_id: Its id; no two running requests may share one.
        text: The prompt.
        max_new_tokens: Tokens to generate; the end-of-text token does not end it sooner.
        further: More sampling parameters, such as a `json_schema`.

    Raises:
        OSError: If the server cannot be reached, refuses the request, or ends.
    """
    parameters = {**sampling(max_new_tokens), **(further or {})}
    body = {"text": text, "rid": request_id, "sampling_params": parameters}
    return parse(json.loads(_post(f"{url}/generate", body)))


def abort(url: str, request_id: str) -> None:
    """Ask a server to give up a request; its answer has what is there already.

    Raises:
        OSError: If the server cannot be reached, or ends.
    """
    _post(f"{url}/abort_request", {"rid": request_id})


def _post(address: str, body: dict[str, Any]) -> bytes:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    with _opener.open(request, timeout=REQUEST_TIMEOUT_S) as response:
        content: bytes = response.read()
        return content


def ask_numbered(url: str, index: int, max_new_tokens: int, tag: str) -> Answer:
    """Send the request of an index, see `generate`."""
    return ask(
        url,
        request_id=f"{tag}-{index:04d}",
        text=prompt(index),
        max_new_tokens=max_new_tokens + index % LENGTHS,
    )


def generate(
    url: str, *, requests: int, concurrency: int, max_new_tokens: int, tag: str
) -> list[Answer]:
    """Send greedy requests, several at a time, and return their answers in order.

    Request i has the id `{tag}-{i:04d}`, the prompt `prompt(i)` and `max_new_tokens + i % 7` tokens
    to generate, so that requests end at different times.

    Args:
        url: Address of the server, as `http://HOST:PORT`.
        requests: Number of requests.
        concurrency: Requests in flight at a time.
        max_new_tokens: Fewest tokens to generate for a request.
        tag: First part of the request ids.

    Raises:
        OSError: If the server cannot be reached, refuses a request, or ends.
    """
    with ThreadPoolExecutor(concurrency) as pool:
        return list(
            pool.map(lambda index: ask_numbered(url, index, max_new_tokens, tag), range(requests))
        )


class LoadLoop:
    """Keeps a server busy in the background until stopped; a context manager.

    Sends the requests of `generate`, without end. Leaving the `with` waits for those in flight.
    """

    def __init__(
        self, url: str, *, concurrency: int = 4, max_new_tokens: int = 64, tag: str = "loop"
    ) -> None:
        """Set up the load, without starting it.

        Args:
            url: Address of the server, as `http://HOST:PORT`.
            concurrency: Requests in flight at a time.
            max_new_tokens: Fewest tokens to generate for a request.
            tag: First part of the request ids.
        """
        self._url = url
        self._max_new_tokens = max_new_tokens
        self._tag = tag
        self._indices = itertools.count()
        self._stop = threading.Event()
        self._answers: deque[Answer] = deque(maxlen=KEPT_ANSWERS)
        self._error: Exception | None = None
        self._threads = [
            threading.Thread(target=self._work, name=f"load-{i}", daemon=True)
            for i in range(concurrency)
        ]

    def __enter__(self) -> Self:
        """Start sending."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop sending; raise the error that ended the load, unless another one is on its way."""
        self.stop()
        if error is None and self._error is not None:
            raise self._error

    @property
    def answers(self) -> list[Answer]:
        """The answers so far, oldest first: the last 10,000."""
        return list(self._answers)

    @property
    def error(self) -> Exception | None:
        """The error that ended the load, if one did."""
        return self._error

    def stop(self) -> None:
        """Send no more requests and wait for those in flight."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        """Send one request after another; the first error of any thread ends all."""
        while not self._stop.is_set():
            try:
                index = next(self._indices)
                answer = ask_numbered(self._url, index, self._max_new_tokens, self._tag)
            except (OSError, ValueError, KeyError) as error:
                self._error = self._error or error
                self._stop.set()
                return
            self._answers.append(answer)


def summary(answers: list[Answer], seconds: float) -> str:
    """Return one line on a load.

    Args:
        answers: Its answers.
        seconds: How long it ran.
    """
    tokens = sum(answer.completion_tokens for answer in answers)
    verifies = sum(answer.verify_count for answer in answers)
    line = f"{len(answers)} requests, {tokens} tokens, {tokens / seconds:.0f} tok/s"
    if not verifies:
        return f"{line}, no speculation"
    drafts = sum(answer.correct_drafts for answer in answers)
    return f"{line}, accept length {(drafts + verifies) / verifies:.2f}"


def keep_busy(url: str, *, seconds: float, concurrency: int, max_new_tokens: int) -> list[Answer]:
    """Load a server for a time, or until Ctrl-C, and return the answers.

    Raises:
        OSError: If the server cannot be reached, refuses a request, or ends.
    """
    with LoadLoop(url, concurrency=concurrency, max_new_tokens=max_new_tokens) as loop:
        try:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and loop.error is None:
                time.sleep(0.1)
        except KeyboardInterrupt:
            print("stopping", file=sys.stderr)
    return loop.answers


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="address of the server, as http://HOST:PORT")
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--seconds", type=float, help="a steady load for so long instead")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--tag", default="load", help="first part of the request ids")
    parser.add_argument("--json", action="store_true", help="print the answers, one a line")
    given = parser.parse_args()
    url = given.url.rstrip("/")
    begin = time.monotonic()
    try:
        answers = (
            generate(
                url,
                requests=given.requests,
                concurrency=given.concurrency,
                max_new_tokens=given.max_new_tokens,
                tag=given.tag,
            )
            if given.seconds is None
            else keep_busy(
                url,
                seconds=given.seconds,
                concurrency=given.concurrency,
                max_new_tokens=given.max_new_tokens,
            )
        )
    except OSError as error:
        print(f"{given.url}: {error}. Is the server running there?", file=sys.stderr)
        return 1
    if given.json:
        for answer in answers:
            print(json.dumps(vars(answer)))
    print(summary(answers, time.monotonic() - begin), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
