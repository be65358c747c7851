"""Gives SGLang's speculative modules the operators that they otherwise take from a CUDA build."""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from typing import TYPE_CHECKING, Any

import torch

from .cache import assign_extend_cache_locs_cpu
from .tree import build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

PACKAGE = "sglang.srt.speculative."


def verify_tree_greedy(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    **links: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Accept drafts as `verify_tree_greedy_cpu` does; links came as `retrive_` and `retrieve_`."""
    target_predict = links.pop("target_predict")
    by_name = {name.replace("retrive_", "retrieve_"): link for name, link in links.items()}
    verify_tree_greedy_cpu(
        predicts,
        accept_index,
        accept_token_num,
        candidates,
        by_name["retrieve_index"],
        by_name["retrieve_next_token"],
        by_name["retrieve_next_sibling"],
        target_predict,
    )
    return predicts, accept_index, accept_token_num


def assign_extend_cache_locs(  # noqa: PLR0913  SGLang's signature
    *,
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    batch_size: int,
    draft_token_num: int,
    device: Any,
) -> torch.Tensor:
    """Return the slots of each request's tokens from `start_offset` to `end_offset`, packed."""
    slots = torch.empty(batch_size * draft_token_num, dtype=torch.int64, device=device)
    assign_extend_cache_locs_cpu(
        req_pool_indices, req_to_token, start_offset, end_offset, slots, req_to_token.shape[1]
    )
    return slots


# Before a module runs, since it has no such name of its own; and after, in place of its own.
BEFORE = {"sgl_build_tree_kernel_efficient": build_tree_kernel_efficient_cpu}
AFTER = {
    "verify_tree_greedy_func": verify_tree_greedy,
    "assign_extend_cache_locs_func": assign_extend_cache_locs,
}


class Finder(importlib.abc.MetaPathFinder):
    """Finds the speculative modules first, to put the operators into them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where the module is, with a loader that does more."""
        if not name.startswith(PACKAGE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            loader.exec_module = filling(loader.exec_module)
        return spec


def filling(run: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    """Return a way to run a module that leaves the operators in it."""

    def run_and_fill(module: ModuleType) -> None:
        vars(module).update(BEFORE)
        run(module)
        vars(module).update({name: AFTER[name] for name in AFTER if name in vars(module)})

    return run_and_fill


def hand_out() -> None:
    """Let every speculative module that is imported from now on have the operators."""
    sys.meta_path.insert(0, Finder())
