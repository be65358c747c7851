"""The operators that lay out a draft as a tree and walk down the accepted branch of it.

The nodes of a request's tree are numbered 0 to n - 1, node 0 being the last token that the target
has confirmed. `first_child[b, i]` and `next_sibling[b, i]` link the nodes, -1 meaning none.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import torch

QUERIES_ONLY = 1  # sglang's TreeMaskMode.QLEN_ONLY; its FULL_MASK has the prefix in each row too


def _parents(chosen: list[int], parent_list: list[int], topk: int) -> list[int | None]:
    """Return the parent of each node; None for the root and for nodes chosen without theirs.

    The draft's candidates come `topk` to a parent: candidate c hangs from the root if it is one of
    the first `topk`, else from the candidate `parent_list[c // topk]`.
    """
    node_of = {candidate: node for node, candidate in enumerate(chosen, start=1)}
    parents: list[int | None] = [None]
    for candidate in chosen:
        first = candidate < topk
        parents.append(0 if first else node_of.get(parent_list[candidate // topk]))
    return parents


def _link(parents: list[int | None], first_child: torch.Tensor, next_sibling: torch.Tensor) -> None:
    """Write the links of one tree, children in the order of their numbers."""
    youngest: dict[int, int] = {}
    for node, parent in enumerate(parents):
        if parent is None:
            continue
        if parent in youngest:
            next_sibling[youngest[parent]] = node
        else:
            first_child[parent] = node
        youngest[parent] = node


def _depths_and_sight(parents: list[int | None]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each node's depth, shape (n,), and which nodes it sees: its ancestors and itself."""
    count = len(parents)
    depths, sees = torch.zeros(count, dtype=torch.long), torch.eye(count, dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent is not None:
            depths[node] = depths[parent] + 1
            sees[node] |= sees[parent]
    return depths, sees


def build_tree_kernel_efficient_cpu(  # noqa: PLR0913, PLR0917  SGLang's signature
    parent_list: torch.Tensor,
    selected: torch.Tensor,
    seq_lens: torch.Tensor,
    mask: torch.Tensor,
    positions: torch.Tensor,
    index: torch.Tensor,
    first_child: torch.Tensor,
    next_sibling: torch.Tensor,
    topk: int,
    _depth: int,
    nodes: int,
    mask_mode: int,
) -> None:
    """Lay out the draft of each request of a batch of b.

    Args:
        parent_list: Parents of the candidates, see `_parents`; one row for each request.
        selected: The candidates chosen as nodes 1 and up, shape (b, nodes - 1).
        seq_lens: Number of tokens of each request, shape (b,).
        mask: What each node may attend to, requests packed; written.
        positions: Position of each node's token, shape (b * nodes,); written.
        index: Number of each node among all of the batch, shape (b, nodes); written.
        first_child: Links, shape (b, nodes), filled with -1; written.
        next_sibling: Links, shape (b, nodes), filled with -1; written.
        topk: Candidates of a parent.
        nodes: Nodes of a tree.
        mask_mode: `QUERIES_ONLY`: a row of `mask` has the nodes; else the request's tokens first.
    """
    index.copy_(torch.arange(index.numel()).view_as(index))
    filled = 0
    for b, length in enumerate(seq_lens.tolist()):
        parents = _parents(selected[b].tolist(), parent_list[b].tolist(), topk)
        _link(parents, first_child[b], next_sibling[b])
        depths, sees = _depths_and_sight(parents)
        positions[b * nodes : (b + 1) * nodes] = length + depths
        prefix = 0 if mask_mode == QUERIES_ONLY else length
        size = nodes * (prefix + nodes)
        rows = mask[filled : filled + size].view(nodes, prefix + nodes)
        rows[:, :prefix], rows[:, prefix:] = True, sees
        filled += size


def _accepted_path(
    tokens: list[int], wanted: list[int], first_child: list[int], next_sibling: list[int], most: int
) -> list[int]:
    """Return the nodes from the root down, each one's token the target's choice after its parent.

    Args:
        tokens: Token of each node.
        wanted: The target's choice after each node.
        first_child: Links.
        next_sibling: Links.
        most: Nodes to return at most.
    """
    path = [0]
    while len(path) < most:
        node = path[-1]
        child = first_child[node]
        while child != -1 and tokens[child] != wanted[node]:
            child = next_sibling[child]
        if child == -1:
            break
        path.append(child)
    return path


def verify_tree_greedy_cpu(  # noqa: PLR0913, PLR0917  SGLang's signature, names included
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    """Accept, in each tree, the branch that greedy decoding by the target would have taken.

    Args:
        predicts: Token after each node on the branch, shape (b * nodes,); written.
        accept_index: The branch's nodes by their `retrive_index`, shape (b, most); written.
        accept_token_num: Nodes on the branch without the root, shape (b,); written.
        candidates: Token of each node, shape (b, nodes).
        retrive_index: Number of each node among all of the batch, shape (b, nodes).
        retrive_next_token: First child of each node, shape (b, nodes).
        retrive_next_sibling: Next sibling of each node, shape (b, nodes).
        target_predict: The target's choice after each node, shape (b, nodes).
    """
    for b in range(candidates.shape[0]):
        path = _accepted_path(
            candidates[b].tolist(),
            target_predict[b].tolist(),
            retrive_next_token[b].tolist(),
            retrive_next_sibling[b].tolist(),
            accept_index.shape[1],
        )
        numbers = retrive_index[b, path].long()
        accept_index[b, : len(path)] = numbers.to(accept_index.dtype)
        accept_token_num[b] = len(path) - 1
        predicts[numbers] = target_predict[b, path].to(predicts.dtype)
