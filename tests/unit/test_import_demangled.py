"""Names of kernels as they stand in their source."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.importing import demangled as tried
from spectrace.importing.demangled import demangled

pytestmark = pytest.mark.beside_others


@pytest.fixture
def afresh() -> Iterator[None]:
    """The runtime is looked for again, before and behind."""
    tried._demangler.cache_clear()
    yield
    tried._demangler.cache_clear()


@pytest.mark.parametrize(
    ("compiled", "source"),
    [
        ("_Z6kernelIfEvPT_", "void kernel<float>(float*)"),
        ("_Z10all_reducePKfi", "all_reduce(float const*, int)"),
        (
            "_ZN2at6native13reduce_kernelILi512ELi1EEEvPf",
            "void at::native::reduce_kernel<512, 1>(float*)",
        ),
        ("nvjet_tst_64x8_64x16_2x1_v_bz_TNT", "nvjet_tst_64x8_64x16_2x1_v_bz_TNT"),
        ("kernel at 0xbeef", "kernel at 0xbeef"),
        ("Memcpy DtoH", "Memcpy DtoH"),
        ("_Znot_a_name_at_all", "_Znot_a_name_at_all"),
        ("", ""),
    ],
)
def test_a_compiled_name_is_told_as_in_its_source(compiled: str, source: str) -> None:
    """By the rules of the Itanium C++ ABI; every other name is as it was."""
    assert demangled(compiled) == source


@given(st.text(alphabet="_ZNESt0123456789IKPfvilj", max_size=200))
def test_what_looks_like_one_does_no_harm(rest: str) -> None:
    """Names are read out of the memory of a server, which may hold anything."""
    assert demangled(f"_Z{rest}")


def test_one_that_is_too_long_is_left() -> None:
    """A template of templates takes the demangler's stack."""
    deep = "_Z1fI" + "1aI" * 3000 + "E" * 3001
    assert demangled(deep) == deep


@pytest.mark.usefixtures("afresh")
def test_without_the_runtime_names_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of musl alone need not have it."""

    def missing(name: str | None) -> ctypes.CDLL:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert demangled("_Z6kernelIfEvPT_") == "_Z6kernelIfEvPT_"


def test_a_kernel_has_the_same_class_either_way() -> None:
    """The table knows names as the compiler wrote them, too."""
    compiled = "_ZN10flashinfer4norm13RMSNormKernelILj8EEEvPf"
    assert KernelClasses().of(compiled) == KernelClasses().of(demangled(compiled)) == "norm"
