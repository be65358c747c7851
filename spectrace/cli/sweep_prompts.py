"""The requests of a sweep's own load: the same ones in the same order for every setting."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from spectrace.errors import SpectraceError

# What a draft accepts depends on the text: some of each kind that people ask for.
_OWN = (
    "Write a Python function that reads a CSV file and returns the mean of each column.\n",
    "Explain to a student, step by step, how a binary search finds a number in a sorted list.\n",
    "Question: A train covers 240 km in 3 hours, then 100 km in 2. How fast is it?\nAnswer:",
    "Write a short story about a lighthouse keeper who finds a letter in a bottle.\n",
    "Translate into French: The library opens at nine and closes at six, except on Sundays.\n",
    "List ten practical tips for someone who moves to a new city, each with a reason.\n",
    'Complete this JSON document that describes a book:\n{"title": "A History of Maps", ',
    "Summarize the rules of chess for somebody who has never played a board game.\n",
    "def quicksort(values: list[int]) -> list[int]:\n",
    "Dear customer service, I am writing because the lamp that I ordered two weeks ago",
    "SELECT customer, sum(amount) FROM orders WHERE",
    "The main difference between a virus and a bacterium is",
)


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        text: What is sent, as the model sees it: no chat template is applied.
        max_tokens: Tokens to generate; as many as the load says where it is None.
    """

    text: str
    max_tokens: int | None = None


def own_prompts() -> list[Prompt]:
    """Those that are sent where no file is named."""
    return [Prompt(text=text) for text in _OWN]


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts of a file: each line is one, as text or as JSON with `text` and `max_tokens`.

    Empty lines are left out.

    Raises:
        SpectraceError: The file cannot be read, or a line of it is neither.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise SpectraceError(f"The prompts in {path} cannot be read: {why}.") from None
    prompts = [_prompt(line, path, number) for number, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise SpectraceError(f"{path} holds no prompts: write one on each line.")
    return prompts


def _prompt(line: str, path: Path, number: int) -> Prompt:
    if not line.lstrip().startswith("{"):
        return Prompt(text=line)
    try:
        found: Any = json.loads(line)
        prompt = msgspec.convert(found, Prompt)
    except (ValueError, msgspec.ValidationError) as error:
        raise SpectraceError(
            f"Line {number} of {path} is no prompt ({error}): write text, or JSON such as "
            '{"text": "…", "max_tokens": 128}.'
        ) from None
    if not prompt.text or (prompt.max_tokens is not None and prompt.max_tokens < 1):
        raise SpectraceError(f"Line {number} of {path} asks for nothing: give text and a length.")
    return prompt


def in_order(prompts: list[Prompt], count: int, seed: int) -> list[Prompt]:
    """So many requests: all prompts in a random order, then all in another one, and so on.

    Args:
        prompts: At least one.
        count: How many requests.
        seed: Of the orders; the same seed gives the same requests.
    """
    random = Random(seed)  # noqa: S311 - an order, no secret
    found: list[Prompt] = []
    while len(found) < count:
        found += random.sample(prompts, len(prompts))
    return found[:count]
