"""The load reads the server's counts out of its replies and numbers its requests."""

from __future__ import annotations

import http.server
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from examples.sglang_cpu.load import LoadLoop, generate, parse, summary

if TYPE_CHECKING:
    from collections.abc import Iterator


class EchoingServer(http.server.BaseHTTPRequestHandler):
    """Answers each request with as many tokens as it asks for, without speculation."""

    def do_POST(self) -> None:
        """Answer one request."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        count = asked["sampling_params"]["max_new_tokens"]
        meta = {"id": asked["rid"], "completion_tokens": count}
        reply = {"meta_info": meta, "output_ids": list(range(count)), "text": asked["text"]}
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """Address of an echoing server on loopback."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), EchoingServer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def reply(**counts: object) -> dict[str, Any]:
    """Return a reply of `/generate` with 9 tokens and the given counts."""
    meta = {"id": "a-0000", "completion_tokens": 9, **counts}
    return {"meta_info": meta, "output_ids": list(range(9)), "text": "words"}


def test_an_answer_has_the_servers_own_counts() -> None:
    """An answer has the counts that the server reports, unchanged."""
    answer = parse(
        reply(
            spec_verify_ct=3,
            spec_num_correct_drafts=5,
            spec_correct_drafts_histogram=[1, 0, 0, 0, 0, 1],
            spec_accept_length=3.0,
        )
    )
    assert (answer.request_id, answer.completion_tokens) == ("a-0000", 9)
    assert (answer.verify_count, answer.correct_drafts) == (3, 5)
    assert answer.correct_drafts_histogram == (1, 0, 0, 0, 0, 1)


def test_without_speculation_the_counts_are_zero() -> None:
    """A reply without speculative counts is read as having none."""
    answer = parse(reply())
    assert (answer.verify_count, answer.correct_drafts) == (0, 0)
    assert answer.correct_drafts_histogram == ()


def test_answers_come_in_the_order_of_their_requests_with_varying_lengths(url: str) -> None:
    """Answers keep the order of the requests, whose lengths go round in seven."""
    answers = generate(url, requests=8, concurrency=3, max_new_tokens=4, tag="t")
    assert [answer.request_id for answer in answers] == [f"t-{i:04d}" for i in range(8)]
    assert [answer.completion_tokens for answer in answers] == [4, 5, 6, 7, 8, 9, 10, 4]


def test_prompts_differ(url: str) -> None:
    """No two requests of a load have the same prompt."""
    answers = generate(url, requests=30, concurrency=3, max_new_tokens=1, tag="t")
    assert len({answer.text for answer in answers}) == 30


def test_a_loop_sends_requests_until_it_is_left(url: str) -> None:
    """A loop sends request after request, each with an id of its own."""
    with LoadLoop(url, concurrency=2, max_new_tokens=1, tag="loop") as loop:
        while len(loop.answers) < 20:
            assert loop.error is None
            time.sleep(0.01)
    ids = [answer.request_id for answer in loop.answers]
    assert len(set(ids)) == len(ids)


def test_a_loop_hands_on_the_error_that_ended_it(unused_port: int) -> None:
    """Leaving a loop raises the error that ended its load."""
    loop = LoadLoop(f"http://127.0.0.1:{unused_port}", concurrency=1)
    loop.__enter__()
    while loop.error is None:
        time.sleep(0.01)
    with pytest.raises(OSError, match="refused"):
        loop.__exit__(None, None, None)


def test_the_accept_length_of_a_load_counts_each_verify_once() -> None:
    """The accept length of a load is (correct drafts + verifies) / verifies."""
    answers = [parse(reply(spec_verify_ct=3, spec_num_correct_drafts=5))] * 2
    assert summary(answers, 2.0) == "2 requests, 18 tokens, 9 tok/s, accept length 2.67"


@pytest.fixture
def unused_port() -> int:
    """A port on which nobody listens."""
    with http.server.HTTPServer(("127.0.0.1", 0), EchoingServer) as server:
        return server.server_port
