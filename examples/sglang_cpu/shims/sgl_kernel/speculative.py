"""The operator that NGRAM drafts need: it lays out the trees of which only a mask is known."""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import torch

from .tree import _depths_and_sight, _link


def reconstruct_indices_from_tree_mask(  # noqa: PLR0913, PLR0917  SGLang's signature
    mask: torch.Tensor,
    seq_lens: torch.Tensor,
    positions: torch.Tensor,
    index: torch.Tensor,
    first_child: torch.Tensor,
    next_sibling: torch.Tensor,
    batch_size: int,
    nodes: int,
) -> None:
    """Lay out the draft of each request of a batch of b, see `tree`.

    Args:
        mask: Which nodes each node sees, its parent being the last of its ancestors; (b * n * n,).
        seq_lens: Number of tokens of each request, shape (b,).
        positions: Position of each node's token, shape (b * nodes,); written.
        index: Number of each node among all of the batch, shape (b, nodes); written.
        first_child: Links, shape (b, nodes); written.
        next_sibling: Links, shape (b, nodes); written.
        batch_size: Requests.
        nodes: Nodes of a tree.
    """
    index.copy_(torch.arange(index.numel()).view_as(index))
    first_child.fill_(-1)
    next_sibling.fill_(-1)
    trees = mask.view(batch_size, nodes, nodes).tolist()
    for b, length in enumerate(seq_lens.tolist()):
        parents = [
            max((j for j in range(i) if sees[j]), default=None) for i, sees in enumerate(trees[b])
        ]
        _link(parents, first_child[b], next_sibling[b])
        depths, _ = _depths_and_sight(parents)
        positions[b * nodes : (b + 1) * nodes] = length + depths
