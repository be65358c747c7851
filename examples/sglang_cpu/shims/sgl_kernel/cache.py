"""The operators that hand out slots of the key-value cache, as SGLang's CPU path calls them.

`table` is SGLang's request-to-token table throughout: int32 of shape (requests, `pool_len`), and
`table[pool_ids[i], t]` is the cache slot of token `t` of request `i`. Arguments marked as written
are changed in place; all others are only read.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import ctypes

import torch


def assign_req_to_token_pool_cpu(
    pool_ids: torch.Tensor,
    table: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    slots: torch.Tensor,
    _pool_len: int,
) -> None:
    """Write new slots into the table, request after request.

    Args:
        pool_ids: Row of each request in the table, shape (n,).
        table: The table; written.
        start: First token to write, for each request, shape (n,).
        end: One past the last token to write, for each request, shape (n,).
        slots: The slots, packed, shape (sum of end - start,).
    """
    taken = 0
    for row, first, last in zip(pool_ids.tolist(), start.tolist(), end.tolist(), strict=True):
        count = last - first
        table[row, first:last] = slots[taken : taken + count].to(table.dtype)
        taken += count


def assign_extend_cache_locs_cpu(
    pool_ids: torch.Tensor,
    table: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    slots: torch.Tensor,
    _pool_len: int,
) -> None:
    """Read slots out of the table, request after request: the way back of the function above.

    Args:
        pool_ids: Row of each request in the table, shape (n,).
        table: The table.
        start: First token to read, for each request, shape (n,).
        end: One past the last token to read, for each request, shape (n,).
        slots: The slots, packed, shape (sum of end - start,); written.
    """
    taken = 0
    for row, first, last in zip(pool_ids.tolist(), start.tolist(), end.tolist(), strict=True):
        count = last - first
        slots[taken : taken + count] = table[row, first:last].to(slots.dtype)
        taken += count


def assign_draft_cache_locs_contiguous_cpu(  # noqa: PLR0913, PLR0917  SGLang's signature
    pool_ids: torch.Tensor,
    table: torch.Tensor,
    seq_lens: torch.Tensor,
    slots: torch.Tensor,
    pool_len: int,
    topk: int,
    columns: int,
) -> None:
    """Read the `topk * columns` slots that follow each request's tokens: room for its draft.

    Args:
        pool_ids: Row of each request in the table, shape (n,).
        table: The table.
        seq_lens: Number of tokens of each request, shape (n,).
        slots: The slots, packed, shape (n * topk * columns,); written.
        pool_len: Width of the table.
        topk: Branches of a draft.
        columns: Tokens of a branch.
    """
    end = seq_lens + topk * columns
    assign_extend_cache_locs_cpu(pool_ids, table, seq_lens, end, slots, pool_len)


def build_draft_decode_metadata_cpu(  # noqa: PLR0913, PLR0917  SGLang's signature
    table: torch.Tensor,
    pool_ids: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    steps: int,
    pool_len: int,
) -> torch.Tensor:
    """Return a table with a row for each branch of each request's draft.

    Args:
        table: The table.
        pool_ids: Row of each request in the table, shape (n,).
        seq_lens: Number of tokens of each request, shape (n,).
        topk: Branches of a draft.
        steps: Tokens of a branch.
        pool_len: Width of the table.

    Returns:
        Shape (n * topk, pool_len): the request's slots, then those of the branch alone.
    """
    branches = torch.zeros(pool_ids.numel() * topk, pool_len, dtype=table.dtype)
    for i, (row, length) in enumerate(zip(pool_ids.tolist(), seq_lens.tolist(), strict=True)):
        for j in range(topk):
            own = length + j * steps
            branches[i * topk + j, :length] = table[row, :length]
            branches[i * topk + j, length : length + steps] = table[row, own : own + steps]
    return branches


def fill_accept_out_cache_loc_cpu(
    accept_index: torch.Tensor, slots: torch.Tensor, accepted_slots: torch.Tensor
) -> None:
    """Pack the slots of the accepted draft tokens.

    Args:
        accept_index: Index of each accepted token among all draft tokens, -1 where there is none.
        slots: Slots of all draft tokens.
        accepted_slots: Slots of the accepted ones, at the front; written.
    """
    accepted = accept_index[accept_index > -1].long()
    accepted_slots[: accepted.numel()] = slots[accepted]


def fill_bonus_tokens_cpu(
    accept_tokens: torch.Tensor, accept_lens: torch.Tensor, bonus_tokens: torch.Tensor, stride: int
) -> None:
    """Pick the last accepted token of each request, which the target itself has added.

    Args:
        accept_tokens: Accepted tokens, `stride` for each request.
        accept_lens: How many of them count, bonus included, shape (n,).
        bonus_tokens: The last that counts, shape (n,); written.
        stride: Tokens for each request in `accept_tokens`.
    """
    rows = torch.arange(accept_lens.numel())
    bonus_tokens.copy_(accept_tokens.flatten()[rows * stride + accept_lens.long() - 1])


def copy_all_layer_kv_cache_cpu(
    buffers: torch.Tensor, row_bytes: torch.Tensor, target: torch.Tensor, source: torch.Tensor
) -> None:
    """Copy rows of the key-value cache in all layers; all are read before any is written.

    Args:
        buffers: Address of the first row of each buffer (keys and values of each layer).
        row_bytes: Bytes of a row, for each buffer.
        target: Rows to write, shape (n,).
        source: Rows to read, shape (n,).
    """
    read, write = source.tolist(), target.tolist()
    for address, size in zip(buffers.tolist(), row_bytes.tolist(), strict=True):
        rows = [ctypes.string_at(address + row * size, size) for row in read]
        for row, content in zip(write, rows, strict=True):
            ctypes.memmove(address + row * size, content, size)
