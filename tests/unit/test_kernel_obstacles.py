"""Everything that keeps a kernel window shut is told from the others, and says what to do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spectrace.attach import kernel_obstacles
from spectrace.attach.facts import Process
from spectrace.attach.kernel_obstacles import Obstacle, before, mend, of_refusal, why
from spectrace.probe.layout_window import Refusal

pytestmark = pytest.mark.beside_others

OPEN = Process(
    pid=71,
    packages={"torch": "2.13.0+cu130", "cupti-python": "13.4.0"},
    libraries=("libcuda.so.1", "libcupti.so.13", "libtorch_cuda.so"),
    cuptis=("/site/nvidia/cu13/lib/libcupti.so.13",),
    devices=("/dev/nvidia0",),
)


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({}, None),
        ({"libraries": ("libcuda.so.1",), "cuptis": ()}, None),  # it is loaded with the window
        ({"environment": {"NVTX_INJECTION64_PATH": "/listens/to/nvtx.so"}}, None),
        ({"libraries": ("libtorch_cpu.so",)}, Obstacle.NO_GPU),
        ({"libraries": ("libamdhip64.so.6", "libtorch_hip.so")}, Obstacle.ROCM),
        ({"libraries": ("libcuda.so.1", "libToolsInjection64.so")}, Obstacle.TOOL),
        ({"environment": {"NSYS_PROFILING_SESSION_ID": "1"}}, Obstacle.TOOL),
        ({"environment": {"CUDA_INJECTION64_PATH": "/agent.so"}}, Obstacle.TOOL),
        ({"libraries": ("libcuda.so.1", "libcupti.so.12")}, Obstacle.CUDA_12),
        ({"packages": {"cupti-python": "12.8.0"}}, Obstacle.CUDA_12),
        ({"packages": {"torch": "2.13.0"}}, Obstacle.NO_PACKAGE),
        ({"packages": {"cupti-python": "11.0"}}, Obstacle.TOO_OLD),
        ({"packages": {"cupti-python": "14.0.1"}}, Obstacle.TWO_COPIES),
        (
            {"cuptis": ("/site/nvidia/lib/libcupti.so.13", "/usr/local/cuda/lib/libcupti.so.13")},
            Obstacle.TWO_COPIES,
        ),
    ],
)
def test_what_is_in_the_way_is_told_from_outside(
    changes: dict[str, Any], obstacle: Obstacle | None
) -> None:
    """From what is installed, mapped and set, before the server is touched."""
    assert before(msgspec.structs.replace(OPEN, **changes)) is obstacle


def test_every_cause_has_sentences_of_its_own() -> None:
    """What it is, and what to do; no two causes say the same."""
    causes = [why(one) for one in Obstacle]
    assert len(set(causes)) == len(Obstacle)
    for one in Obstacle:
        assert why(one).endswith(".")
        assert mend(one).endswith(".")


def test_what_cupti_said_stands_behind_the_sentence() -> None:
    """It is what a search engine knows."""
    assert why(Obstacle.TAKEN, "ERROR (39)").endswith(". (ERROR (39))")


def test_every_number_of_the_probes_has_a_cause() -> None:
    """One that a newer probe may know is told as CUPTI's own words."""
    numbers = {
        name: value for name, value in vars(Refusal).items() if name.isupper() and name != "NONE"
    }
    for name, number in numbers.items():
        assert of_refusal(number) is Obstacle[name]
    assert of_refusal(max(numbers.values()) + 1) is Obstacle.OTHER


def test_the_driver_of_older_cards_is_no_tool() -> None:
    """`libcuda` begins like the names of libraries that are injected, and is the driver."""
    assert before(msgspec.structs.replace(OPEN, libraries=("libcuda.so.470.1",))) is None
    assert kernel_obstacles.PACKAGE == "cupti-python"
