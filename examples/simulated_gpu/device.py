"""The simulated GPU as Python sees it: built on demand, registered with torch.

Runs only in an interpreter that has torch, see `environment.py`. The device does what
`device.cpp` says; this module adds device values of which every early read by the host is
counted.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from functools import total_ordering
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]  # not in the environment of the tool

NAME = "simulated_gpu"  # of the device, to torch and to whoever asks the server
_HERE = Path(__file__).resolve().parent
_SOURCE = _HERE / "device.cpp"
_CACHE = _HERE.parents[1] / ".run" / NAME


class BuildError(SystemExit):
    """The device could not be compiled; the message says why, and what to do.

    It ends a program that does not catch it, with that message.
    """


def _command(output: Path) -> list[str]:
    root = Path(str(torch.__file__)).parent
    includes = [root / "include", Path(sysconfig.get_paths()["include"])]
    libraries = root / "lib"
    return [
        *("g++", "-O1", "-std=c++20", "-shared", "-fPIC"),
        *(f"-I{folder}" for folder in includes),
        *(str(_SOURCE), "-o", str(output)),
        *(f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lc10", "-ltorch_cpu", "-lpthread"),
    ]


def build() -> Path:
    """Compiles the device for this torch unless that was done before.

    Returns:
        The shared library; its folder's name is the hash of all that it depends on.

    Raises:
        BuildError: There is no compiler, or it fails.
    """
    depends_on = (_SOURCE.read_bytes(), str(torch.__version__).encode(), sys.version.encode())
    digest = hashlib.sha256(b"\0".join(depends_on)).hexdigest()[:16]
    library = _CACHE / digest / f"{NAME}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        new = library.with_suffix(f".{os.getpid()}")
        _compile(new)
        new.replace(library)  # two who build at once do not disturb each other
    return library


def _compile(output: Path) -> None:
    advice = "It takes g++ and the headers of Python (Debian: apt-get install g++ python3-dev)."
    try:
        done = subprocess.run(_command(output), stderr=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(f"There is no g++ to compile the simulated GPU with. {advice}") from None
    if done.returncode != 0:
        raise BuildError(f"{done.stderr}\nThe simulated GPU could not be compiled. {advice}")


def _load() -> Any:
    spec = importlib.util.spec_from_file_location(NAME, build())
    if spec is None or spec.loader is None:
        raise BuildError("The simulated GPU was compiled to something that is no module.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _register(device: Any) -> None:
    """Gives torch the device under its name, with the functions that torch.cuda has."""
    torch.utils.rename_privateuse1_backend(NAME)
    face: Any = ModuleType(f"torch.{NAME}")
    face.is_available = lambda: True
    face.device_count = lambda: 1
    face.current_device = lambda: 0
    face._is_in_bad_fork = lambda: False  # noqa: SLF001 - torch asks for that name
    face.manual_seed_all = lambda _seed: None
    face.synchronize = torch.accelerator.synchronize
    face.current_stream = torch.accelerator.current_stream
    face.is_current_stream_capturing = device.is_current_stream_capturing
    torch._register_device_module(NAME, face)  # noqa: SLF001 - torch documents it


ext: Any = _load()
_register(ext)


class _Launch:
    """The work that computes some values: all that was enqueued so far on the current stream."""

    def __init__(self) -> None:
        self._done_ns = ext.done_ns()
        self.copied = False  # by the worker, to the CPU

    def wait(self) -> None:
        ext.wait_until(self._done_ns)


@total_ordering
class DeviceValues:
    """Integers that the device computes: the host may read them only through a copy.

    Every way to read them on the host is a synchronize, as with a CUDA tensor, and is counted
    as one until the worker itself has copied them.

    Args:
        values: What the device will have computed.
        launch: By what; by default the operation enqueued last on the current stream.
    """

    def __init__(self, values: list[int], launch: _Launch | None = None) -> None:
        self._values = values
        self._launch = launch or _Launch()

    def copied(self) -> list[int]:
        """The worker's own copy to the CPU: waits for the device, and is not counted."""
        self._launch.wait()
        self._launch.copied = True
        return list(self._values)

    def tolist(self) -> list[int]:
        """The values: a synchronize, unless they were copied before."""
        if not self._launch.copied:
            ext.count_sync()
            self._launch.wait()
        return list(self._values)

    def item(self) -> int:
        """The only value, as of a tensor with one element."""
        (value,) = self.tolist()
        return value

    def __array__(self, *_: Any, **__: Any) -> Any:
        """For numpy."""
        return np.array(self.tolist())

    def __getitem__(self, place: int) -> DeviceValues:
        """One of them, still on the device; the host knows only how many there are."""
        return DeviceValues([self._values[place]], self._launch)

    def __len__(self) -> int:
        """The shape is known to the host."""
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        """Compares the values."""
        return self.tolist() == other

    def __lt__(self, other: int) -> bool:
        """Compares the only value."""
        return self.item() < other

    def __bool__(self) -> bool:
        """Whether the only value is not 0."""
        return bool(self.item())

    cpu = numpy = tolist
    __int__ = __index__ = item
    __hash__ = None  # type: ignore[assignment]
