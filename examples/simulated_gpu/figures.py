"""Published measurements that the simulated server can be given the times of, by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Times:
    """How long the parts of a cycle take, in ms.

    Attributes:
        draft: All steps, on the device.
        verify: On the device.
        extend: On the device; the draft model's pass over the accepted tokens, 0 for none.
        decode: On the device; the target model's pass over one token. A prefill takes as long.
        launch_draft: On the host, while the device works on it already.
        launch_verify: On the host, before the device can begin; the same for plain decode.
        rest: On the host, once the results are there.
    """

    draft: float
    verify: float
    extend: float
    decode: float
    launch_draft: float
    launch_verify: float
    rest: float

    def scaled(self, factor: float) -> Times:
        """All times multiplied."""
        return Times(**{name: value * factor for name, value in asdict(self).items()})


@dataclass(frozen=True)
class Figures:
    """A published measurement, as far as a simulation needs it.

    Attributes:
        source: What was measured, and where that is published.
        times: The parts of a cycle.
        steps: Steps of a draft; verify looks at one token more.
        accept_length: (Correct drafts + verifies) / verifies.
        unpublished: What the source does not say, and what stands in its place; empty where it
            says all.
    """

    source: str
    times: Times
    steps: int
    accept_length: float
    unpublished: str = ""


FIGURES = {
    # Plain decode took 11.1 ms in all: 9.73 on the device behind the same launch and rest.
    "founding-story": Figures(
        source="Kimi-K2.5 with EAGLE-3 on 8 RTX PRO 6000, TP8, batch 1",
        times=Times(
            draft=2.18,
            verify=27.40,
            extend=0.0,
            decode=11.1 - 1.05 - 0.32,
            launch_draft=0.87,
            launch_verify=1.05,
            rest=0.32,
        ),
        steps=5,
        accept_length=2.1,
    ),
    # Of 7.294 ms of the CPU, 2.826 launch verify's graph. The device's three parts make 13.476
    # of the 13.720 ms that a cycle took.
    "sglang-29960": Figures(
        source="sglang#29960: EAGLE on 2 RTX PRO 6000, TP2, batch 1, overlap scheduler",
        times=Times(
            draft=0.691,
            verify=12.049,
            extend=0.736,
            decode=12.049,
            launch_draft=0.0,
            launch_verify=2.826,
            rest=7.294 - 2.826,
        ),
        steps=5,
        accept_length=2.1,
        unpublished="the accept length and the steps (taken from the founding story), plain decode "
        "(as long as verify), and the draft's launch (counted as rest)",
    ),
    # Its fits for 4 tokens to verify behind 1000 of context; 1.207 ms a cycle are neither model's.
    "specdecode-bench": Figures(
        source="arXiv 2601.11580: Llama-3.1-8B on an H100, gsm8k, 3 steps, batch 1",
        times=Times(
            draft=2.135 + 8.4e-4 * 3 + 2.4e-6 * 1000,
            verify=5.886 + 0.0210 * 4 + 3.93e-5 * 1000,
            extend=0.0,
            decode=5.886 + 0.0210 * 1 + 3.93e-5 * 1000,
            launch_draft=0.0,
            launch_verify=0.0,
            rest=1.207,
        ),
        steps=3,
        accept_length=2.38,
        unpublished="how long launches take (counted as rest)",
    ),
}
