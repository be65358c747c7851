"""Two small language models over bytes, trained on the spot: a target, and a draft that guesses."""

# mypy: disable-error-code="import-not-found, misc"
from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

TEXT = Path(__file__).parents[2] / "LICENSE"
CONTEXT = 8  # bytes that the target looks back
VOCABULARY = 256
_WIDTH, _HIDDEN = 32, 384
_STEPS, _BATCH = 250, 512
_SEED = 7


class Target(nn.Module):
    """The next byte by the last eight: an embedding and two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, _WIDTH)
        self.hidden = nn.Linear(CONTEXT * _WIDTH, _HIDDEN)
        self.out = nn.Linear(_HIDDEN, VOCABULARY)

    def forward(self, contexts: Tensor) -> Tensor:
        """Logits (..., 256) of the byte behind each of `contexts` (..., 8)."""
        hidden = self.hidden(self.embedding(contexts).flatten(-2)).relu()
        logits: Tensor = self.out(hidden)
        return logits


class Draft(nn.Module):
    """The next byte by the last one alone: a table of counts, cheap and often wrong.

    Args:
        text: What to count, as a vector of bytes.
    """

    def __init__(self, text: Tensor) -> None:
        super().__init__()
        counts = torch.zeros(VOCABULARY, VOCABULARY)
        counts.index_put_((text[:-1], text[1:]), torch.ones(len(text) - 1), accumulate=True)
        self.table = nn.Embedding.from_pretrained(counts)

    def forward(self, last: Tensor) -> Tensor:
        """Logits (..., 256) of the byte behind each of `last` (...)."""
        logits: Tensor = self.table(last)
        return logits


def build() -> tuple[Target, Draft]:
    """Trains both on the licence text; takes about two seconds, the same every time."""
    torch.manual_seed(_SEED)
    text = torch.tensor(list(TEXT.read_bytes()))
    target = Target()
    windows = text.unfold(0, CONTEXT + 1, 1)
    optimizer = torch.optim.Adam(target.parameters(), lr=3e-3)
    for _ in range(_STEPS):
        some = windows[torch.randint(len(windows), (_BATCH,))]
        loss = nn.functional.cross_entropy(target(some[:, :-1]), some[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return target.eval(), Draft(text).eval()
