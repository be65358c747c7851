"""The attention operators that SGLang's `intel_amx` backend calls as `torch.ops.sgl_kernel.*`.

In all of them `keys` and `values` are one layer's cache, shape (slots, key-value heads, width), and
`table[pool_ids[i], t]` is the slot of token `t` of request `i`.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    scale: float,
    mask: torch.Tensor | None,
) -> torch.Tensor:
    """Return the attention of one request's queries, shape (queries, heads, width).

    Args:
        query: Shape (queries, heads, width).
        keys: The request's own, shape (tokens, key-value heads, width).
        values: The request's own, shape (tokens, key-value heads, width).
        scale: Factor of the scores.
        mask: True where a query may look, shape (queries, tokens); None: everywhere.
    """
    by_head = [part.to(query.dtype).transpose(0, 1)[None] for part in (query, keys, values)]
    grouped = query.shape[1] != keys.shape[1]
    result = scaled_dot_product_attention(*by_head, attn_mask=mask, scale=scale, enable_gqa=grouped)
    return result[0].transpose(0, 1)


def _refuse_unsupported(
    cap: float, cross: bool, window: int, sinks: torch.Tensor | None, causal: bool = True
) -> None:
    """Raise NotImplementedError for the kinds of attention that a Llama model has no use for."""
    if cross or cap or window > 0 or sinks is not None or not causal:
        raise NotImplementedError(
            "The stand-in for sgl_kernel knows causal attention to the whole prefix only: "
            f"{cap=} {cross=} {window=} sinks={sinks is not None} {causal=}."
        )


def extend_attention_cpu(  # noqa: PLR0913, PLR0917  SGLang's signature
    query: torch.Tensor,
    _new_keys: torch.Tensor,
    _new_values: torch.Tensor,
    output: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    _key_scale: float,
    _value_scale: float,
    table: torch.Tensor,
    pool_ids: torch.Tensor,
    seq_lens: torch.Tensor,
    extend_lens: torch.Tensor,
    extend_starts: torch.Tensor,
    _longest: int,
    scale: float,
    cap: float,
    cross: bool,
    window: int,
    _encoder_lens: torch.Tensor | None,
    sinks: torch.Tensor | None,
    tree: torch.Tensor | None,
    causal: bool,
) -> None:
    """Attend with several new tokens of each request, as in prefill, verify and draft extend.

    SGLang has stored the new keys and values in the cache before the call.

    Args:
        query: All requests' new tokens, packed, shape (tokens, heads, width).
        output: The result, shape of `query`; written.
        keys: The layer's cache.
        values: The layer's cache.
        table: Slots by request and token.
        pool_ids: Row of each request in the table, shape (n,).
        seq_lens: Number of tokens of each request with the new ones, shape (n,).
        extend_lens: Number of new tokens of each request, shape (n,).
        extend_starts: Where each request's new tokens begin in `query`, shape (n,).
        scale: Factor of the scores.
        cap: Must be 0.
        cross: Must be False.
        window: Must be 0.
        sinks: Must be None.
        tree: Which new tokens see each other, a square for each request, packed; None: a chain.
        causal: Must be True.

    Raises:
        NotImplementedError: For another kind of attention.
    """
    _refuse_unsupported(cap, cross, window, sinks, causal)
    lens = zip(*(x.tolist() for x in (pool_ids, seq_lens, extend_lens, extend_starts)), strict=True)
    squares = 0
    for row, length, new, start in lens:
        if not new:
            continue
        mask = torch.ones(new, length, dtype=torch.bool).tril(length - new)
        if tree is not None:
            mask[:, length - new :] = tree[squares : squares + new * new].view(new, new)
            squares += new * new
        slots, rows = table[row, :length].long(), slice(start, start + new)
        output[rows] = _attend(query[rows], keys[slots], values[slots], scale, mask)


def decode_attention_cpu(  # noqa: PLR0913, PLR0917  SGLang's signature
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    _key_scale: float,
    _value_scale: float,
    output: torch.Tensor,
    new_keys: torch.Tensor | None,
    new_values: torch.Tensor | None,
    new_slots: torch.Tensor,
    _scratch: torch.Tensor,
    table: torch.Tensor,
    pool_ids: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    cap: float,
    cross: bool,
    window: int,
    _encoder_lens: torch.Tensor | None,
    sinks: torch.Tensor | None,
) -> None:
    """Store one new token of each request, then attend with it.

    Args:
        query: Shape (n, heads, width).
        keys: The layer's cache; written at `new_slots`.
        values: The layer's cache; written at `new_slots`.
        output: The result, shape of `query`; written.
        new_keys: Keys of the new tokens; None: already in the cache.
        new_values: Values of the new tokens; None: already in the cache.
        new_slots: Slots of the new tokens, shape (n,).
        table: Slots by request and token.
        pool_ids: Row of each request in the table, shape (n,).
        seq_lens: Number of tokens of each request with the new one, shape (n,).
        scale: Factor of the scores.
        cap: Must be 0.
        cross: Must be False.
        window: Must be 0.
        sinks: Must be None.

    Raises:
        NotImplementedError: For another kind of attention.
    """
    _refuse_unsupported(cap, cross, window, sinks)
    if new_keys is not None and new_values is not None:
        keys[new_slots] = new_keys.view(-1, *keys.shape[1:]).to(keys.dtype)
        values[new_slots] = new_values.view(-1, *values.shape[1:]).to(values.dtype)
    for i, (row, length) in enumerate(zip(pool_ids.tolist(), seq_lens.tolist(), strict=True)):
        slots = table[row, :length].long()
        output[i : i + 1] = _attend(query[i : i + 1], keys[slots], values[slots], scale, None)


def register() -> None:
    """Put the operators where the backend looks for them."""
    operators: Any = torch.ops.sgl_kernel
    operators.extend_attention_cpu = extend_attention_cpu
    operators.decode_attention_cpu = decode_attention_cpu
