"""A small draft-and-verify loop in plain torch, traced by its author: see the lines with `tracer`.

`python examples/plain_loop/loop.py` decodes until Ctrl-C; `spectrace attach PID` shows it.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples.plain_loop.models import CONTEXT, Draft, Target, build
from spectrace.loop import Tracer

STEPS = 4
BATCH = 4
PROMPTS = ("You may ", "the License ", "copyright owner ", "Derivative Works ", "in writing ")
LENGTHS = 7  # requests differ in length, so that they do not end all at once
WAIT_S = 0.005


@dataclass
class Request:
    """A request, with the loop's own counts.

    Attributes:
        id: Its id.
        tokens: Prompt and output, as bytes.
        prompt_tokens: How many of them are the prompt's.
        limit: Length at which it ends.
        verifies: Verifies it took part in.
        accepted: How many verifies found how many drafts correct.
    """

    id: str
    tokens: list[int]
    prompt_tokens: int
    limit: int
    verifies: int = 0
    accepted: Counter[int] = field(default_factory=Counter)

    @property
    def ended(self) -> bool:
        """Whether all its tokens are there."""
        return len(self.tokens) >= self.limit


class Decoder:
    """Decodes greedily, by drafting and verifying.

    Args:
        target: Whose text comes out.
        draft: Who guesses it.
        tracer: Tells spectrace.
    """

    def __init__(self, target: Target, draft: Draft, tracer: Tracer) -> None:
        self._target = target
        self._draft = draft
        self._tracer = tracer

    def cycle(self, batch: list[Request]) -> None:
        """Drafts, verifies, and hands the tokens out."""
        tracer = self._tracer
        with tracer.cycle(
            "speculative", [r.id for r in batch], steps=STEPS, topk=1, draft_tokens=STEPS + 1
        ) as cycle:
            contexts = torch.tensor([request.tokens[-CONTEXT:] for request in batch])
            with tracer.phase("draft"):
                drafts = self._guess(contexts[:, -1])
            with tracer.phase("verify"):
                windows = torch.cat((contexts, drafts), 1).unfold(1, CONTEXT, 1)
                wanted = self._target(windows).argmax(-1)
                correct = (wanted[:, :STEPS] == drafts).int().cumprod(1).sum(1)
            with tracer.phase("wait"):
                counts, tokens = correct.tolist(), wanted.tolist()
            with tracer.phase("result"):
                grown = {
                    request.id: take(request, accepted, its_tokens)
                    for request, accepted, its_tokens in zip(batch, counts, tokens, strict=True)
                }
            accepted = {request.id: count for request, count in zip(batch, counts, strict=True)}
            cycle.accepted(accepted, output_tokens=grown)

    def _guess(self, last: Tensor) -> Tensor:
        """The drafts (batch, steps) behind `last` (batch)."""
        drafts = []
        for _ in range(STEPS):
            with self._tracer.phase("draft.step"):
                last = self._draft(last).argmax(-1)
            drafts.append(last)
        return torch.stack(drafts, 1)

    def plain_cycle(self, batch: list[Request]) -> None:
        """One token for each request, by the target alone: the baseline."""
        with self._tracer.cycle("decode", [request.id for request in batch]) as cycle:
            contexts = torch.tensor([request.tokens[-CONTEXT:] for request in batch])
            with self._tracer.phase("forward"):
                tokens = self._target(contexts).argmax(-1).tolist()
            for request, token in zip(batch, tokens, strict=True):
                request.tokens.append(token)
            cycle.accepted(dict.fromkeys((request.id for request in batch), None))


def take(request: Request, accepted: int, tokens: list[int]) -> int:
    """Gives a request its drafts and the bonus token, up to its limit; returns how many."""
    request.verifies += 1
    request.accepted[accepted] += 1
    new = tokens[: accepted + 1][: request.limit - len(request.tokens)]
    request.tokens += new
    return len(new)


def requests(count: int | None) -> Iterator[Request]:
    """So many requests, or without end; they differ in prompt and length."""
    for number in itertools.count() if count is None else range(count):
        prompt = PROMPTS[number % len(PROMPTS)].encode()
        length = len(prompt) + 64 + number % LENGTHS
        yield Request(f"request-{number:04d}", list(prompt), len(prompt), length)


@torch.inference_mode()
def decode(decoder: Decoder, waiting: Iterator[Request], *, plain: bool) -> Iterator[Request]:
    """Decodes the requests, four at a time, and yields those that have ended."""
    running = list(itertools.islice(waiting, BATCH))
    while running:
        if plain:
            decoder.plain_cycle(running)
        else:
            decoder.cycle(running)
        yield from (request for request in running if request.ended)
        running = [request for request in running if not request.ended]
        running += itertools.islice(waiting, BATCH - len(running))


def wait_for_reader(tracer: Tracer) -> None:
    """Returns when somebody has attached."""
    while not tracer.traced and not tracer.problem:
        tracer.idle()
        time.sleep(WAIT_S)


def as_json(request: Request) -> str:
    """A request's counts and its text."""
    facts = {
        "id": request.id,
        "verifies": request.verifies,
        "accepted": dict(request.accepted),
        "output_tokens": len(request.tokens) - request.prompt_tokens,
        "text": bytes(request.tokens).decode("latin-1"),
    }
    return json.dumps(facts)


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, help="so many, then end")
    parser.add_argument("--plain", action="store_true", help="without drafts")
    parser.add_argument("--wait", action="store_true", help="begin when somebody has attached")
    parser.add_argument("--json", action="store_true", help="write each request as it ends")
    given = parser.parse_args()
    torch.set_num_threads(1)
    target, draft = build()
    tracer = Tracer("plain loop", algorithm="NONE" if given.plain else "BIGRAM")
    print(tracer.problem or f"spectrace attach {os.getpid()}", file=sys.stderr, flush=True)
    if given.wait:
        wait_for_reader(tracer)
    try:
        decoder = Decoder(target, draft, tracer)
        for request in decode(decoder, requests(given.requests), plain=given.plain):
            if given.json:
                print(as_json(request), flush=True)
    except KeyboardInterrupt:
        pass
    tracer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
