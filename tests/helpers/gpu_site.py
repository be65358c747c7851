"""A folder of packages by which a server looks like one on a GPU, with a CUPTI that a test scripts.

Seen from outside the library of a driver is mapped and a package installed; from inside records of
kernels come that nobody ran (`cupti_site`), or a refusal.
"""

from __future__ import annotations

import shutil
from pathlib import Path

_SITE = Path(__file__).with_name("cupti_site")
_NAME = "site-packages"  # by which the folders of packages are known among mapped files
_DRIVER = "libcuda.so.1"
# Python runs a module of this name before all else.
_MAPS_THE_DRIVER = f"""
import mmap
from pathlib import Path
with Path(__file__).with_name("{_DRIVER}").open("rb") as file:
    MAPPED = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
"""


class GpuSite:
    """The folder.

    Args:
        folder: Where it is made.

    Attributes:
        path: It, for `PYTHONPATH`.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / _NAME
        shutil.copytree(_SITE, self.path, ignore=shutil.ignore_patterns("__pycache__"))
        (self.path / _DRIVER).write_bytes(bytes(1))
        (self.path / "sitecustomize.py").write_text(_MAPS_THE_DRIVER)
        self._metadata = self.path / "cupti_python-13.dist-info" / "METADATA"
        self._metadata.parent.mkdir()
        self.installed("13.4.0")

    def installed(self, version: str | None) -> None:
        """Which version of cupti-python is installed, as its metadata say; None for none."""
        if version is None:
            self._metadata.unlink()
        else:
            self._metadata.write_text(f"Name: cupti-python\nVersion: {version}\n")

    def refuses(self, answer: str) -> None:
        """What CUPTI answers from now on, see `cupti_site`; empty where it works."""
        (self.path / "cupti/refuses").write_text(answer)
