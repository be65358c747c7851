"""Stands in for sgl_kernel where a release before 0.5.16 runs, which expects CUDA throughout.

What `shims/sgl_kernel` has, found beside this package, and three things more: names that are
imported and never called, CUDA's streams and events, and operators that only its CUDA build has.
"""

# mypy: disable-error-code="import-not-found, import-untyped, attr-defined"
from pkgutil import extend_path
from typing import NoReturn

__path__ = extend_path(__path__, __name__)  # the modules of `shims/sgl_kernel` too

from . import attention, cuda, operators
from .cache import assign_req_to_token_pool_cpu
from .tree import build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu

__all__ = [
    "assign_req_to_token_pool_cpu",
    "build_tree_kernel_efficient_cpu",
    "verify_tree_greedy_cpu",
]


def absent(name: str) -> object:
    """Return what stands for an operator that the CPU path imports and does not call."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"The stand-in for sgl_kernel has no {name}.")

    return refuse


def __getattr__(name: str) -> object:
    """Return a stand-in for any operator, so that importing it works."""
    if name.startswith("__") or name == "convert_weight_packed":  # its absence says: no AMX
        raise AttributeError(name)
    return absent(name)


attention.register()
cuda.quieten()
operators.hand_out()
