"""Loads the real torchvision beside a CPU torch, where its compiled half cannot load.

SGLang and transformers import torchvision without using it here. The wheel's C++ library is linked
against CUDA; without that library torchvision's Python half stops, since it describes operators
(nms and qnms) that are then missing. This module is found first, declares the two operators
without giving them a body, steps aside and lets the real package load.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

import importlib
import sys
from pathlib import Path

import torch

NAME = "torchvision"
HERE = Path(__file__).resolve().parent
MISSING_OPERATORS = ("nms", "qnms")


def declare_operators() -> torch.library.Library:
    """Declare what torchvision's C++ library would; keep the result, they vanish with it."""
    library = torch.library.Library(NAME, "DEF")
    for operator in MISSING_OPERATORS:
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def load_real() -> None:
    """Put the real torchvision in this module's place in `sys.modules`."""
    path = sys.path[:]
    sys.path[:] = [entry for entry in path if Path(entry).resolve() != HERE]
    del sys.modules[NAME]
    try:
        sys.modules[NAME] = importlib.import_module(NAME)
    finally:
        sys.path[:] = path


if __name__ == NAME:
    operators = declare_operators()
    load_real()
    sys.modules[NAME].__dict__["_cpu_operators"] = operators
