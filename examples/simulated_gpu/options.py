"""What kind of simulated server: its options, on the command line and as values."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields

from examples.simulated_gpu.figures import FIGURES

SHAPES = {
    "v1": "EAGLEWorker of 0.5.12: blocks in verify until the device has done it",
    "v2": "EAGLEWorkerV2 of 0.5.23 with the overlap scheduler: runs a cycle ahead of the device",
    "plain": "plain decode on 0.5.23: the baseline",
}


@dataclass(frozen=True)
class Options:
    """What kind of server.

    Attributes:
        shape: One of `SHAPES`.
        figures: One of `FIGURES`: how long everything takes.
        scale: By what all times are multiplied.
        jitter: How much the device's times vary, as a share (standard deviation).
        batch: Requests that run at a time, at most. Times do not depend on it.
        ranks: Tensor parallel ranks, one process each; they begin each cycle together.
        eager: The draft is launched step by step, not as one graph.
        blocking_launches: The host waits for every kernel, as with CUDA_LAUNCH_BLOCKING=1.
        drift_ppm: How fast the device's clock runs away from the host's.
        seed: Of requests, of what they accept, and of the jitter.
    """

    shape: str = "v1"
    figures: str = "founding-story"
    scale: float = 1.0
    jitter: float = 0.01
    batch: int = 1
    ranks: int = 1
    eager: bool = False
    blocking_launches: bool = False
    drift_ppm: float = 40.0
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the options, all with the defaults of `Options`."""
    default = Options()
    shapes = "; ".join(f"{name}: {what}" for name, what in SHAPES.items())
    parser.add_argument("shape", nargs="?", choices=SHAPES, default=default.shape, help=shapes)
    parser.add_argument("--figures", choices=FIGURES, default=default.figures, help="whose times")
    parser.add_argument("--scale", type=_positive, default=default.scale, help="of all times")
    parser.add_argument("--jitter", type=float, default=default.jitter, help="of device times")
    parser.add_argument("--batch", type=int, default=default.batch, help="requests at a time")
    parser.add_argument("--ranks", type=int, default=default.ranks, help="processes (TP)")
    parser.add_argument("--eager", action="store_true", help="draft step by step")
    parser.add_argument(
        "--blocking-launches", action="store_true", help="as with CUDA_LAUNCH_BLOCKING=1"
    )
    parser.add_argument("--drift-ppm", type=float, default=default.drift_ppm, help="of the clock")
    parser.add_argument("--seed", type=int, default=default.seed)


def _positive(text: str) -> float:
    number = float(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def options_of(given: argparse.Namespace) -> Options:
    """The options that a parser has read."""
    return Options(**{field.name: getattr(given, field.name) for field in fields(Options)})
