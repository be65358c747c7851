"""The package cupti-python as it is installed: calls, record types, records, and how it refuses."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spectrace.probe.layout_window import Refusal
from tests.helpers.cupti_records import CALLS, RECORDED
from tests.helpers.scripted_cupti import ScriptedCupti

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / ".run/cupti"

pytestmark = [
    pytest.mark.beside_others,
    pytest.mark.skipif(
        not (PACKAGE / ".ready").exists(), reason="cupti-python is not there: make cupti-setup"
    ),
]

DESCRIBE = """
import inspect
calls = {name: list(inspect.signature(getattr(cupti, name)).parameters) for name in given["calls"]}
records = {}
for version, shape in given["records"].items():
    record = getattr(cupti, f"activity_{version}_dtype")
    places = {name: record.fields[name][:2] for name in shape["fields"]}
    fields = {name: [form.str, place] for name, (form, place) in places.items()}
    kinds = {name: getattr(cupti.ActivityKind, name).value for name in shape["kinds"]}
    records[version] = {"kinds": kinds, "bytes": record.itemsize, "fields": fields}
say({"calls": calls, "records": records})
"""
HAND_OVER = """
import mmap, numpy
from spectrace.probe import kernels, layout_window
from spectrace.importing.cupti import decoded, pieces_in
one = numpy.zeros(1, cupti.activity_api_dtype)
one["kind"], one["start"], one["end"] = cupti.ActivityKind.RUNTIME, 11, 12
one["correlation_id"], one["thread_id"] = 7, 5
two = numpy.zeros(1, cupti.activity_kernel13_dtype)
two["kind"], two["start"], two["end"] = cupti.ActivityKind.CONCURRENT_KERNEL, 13, 14
two["correlation_id"], two["name"], two["graph_id"] = 7, 99, 3
memory = numpy.frombuffer(one.tobytes() + two.tobytes(), numpy.uint8).copy()
at = memory.ctypes.data
activities = [
    cupti.ActivityAPI.from_ptr(at, True, memory),
    cupti.ActivityKernel13.from_ptr(at + one.nbytes, True, memory),
]
file = mmap.mmap(-1, 1 << 16)
store = kernels.Store(file, memoryview(file)[: layout_window.DATA_OFFSET].cast("Q"))
store.take(activities)
found = decoded(pieces_in(file[:], store.words[layout_window.Place.HEAD]).whole)
say([[column.tolist() for column in part] for part in (found.calls, found.works)])
"""
REFUSE = """
from spectrace.probe.cupti_edge import Cupti, RefusedError
try:
    Cupti(lambda activities: None)
except RefusedError as error:
    say([error.refusal, error.status, error.text])
"""


def told(program: str) -> Any:
    """What a program says that has the package; in a process of its own, where it stays."""
    begin = "import json, sys\nfrom cupti import cupti\ngiven = json.load(sys.stdin)\nsay = "
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}lambda what: print(json.dumps(what))\n{program}"],
        input=json.dumps({"calls": CALLS, "records": RECORDED}),
        env={**os.environ, "PYTHONPATH": f"{PACKAGE}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_calls_and_record_types_are_those_that_were_recorded() -> None:
    """What other tests are made of is what the package shows."""
    assert told(DESCRIBE) == {"calls": CALLS, "records": RECORDED}


def test_the_scripted_cupti_takes_what_the_package_takes() -> None:
    """By name and place."""
    for name, arguments in CALLS.items():
        code = getattr(ScriptedCupti, name).__code__
        assert list(code.co_varnames[1 : code.co_argcount]) == arguments


def test_the_packages_own_objects_are_taken_and_read() -> None:
    """Records of its own types, handed over as its own views of them."""
    assert told(HAND_OVER) == [
        [[11], [7], [5]],
        [[13], [14], [7], [0], [3], [10], [99]],
    ]


@pytest.mark.skipif(
    ctypes.util.find_library("cuda") is not None, reason="this machine has a GPU's driver"
)
def test_without_a_driver_the_package_says_so_and_we_understand() -> None:
    """It is no error of CUPTI's and has no number."""
    refusal, status, text = told(REFUSE)
    assert (refusal, status) == (Refusal.NO_DRIVER, 0)
    assert "libcuda.so.1" in text
