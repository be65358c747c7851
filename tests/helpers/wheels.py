"""The sources of SGLang's releases, taken out of their wheels and kept in `.run/`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".run" / "sglang-sources"
SERVER = ROOT / ".venv-sglang"

ROOMS = ("arg_groups", "managers", "mem_cache", "model_executor", "server_args.py", "speculative")
PARALLEL = 6
# Wheels from 0.5.11 on are built for one Python and one platform; nothing of them is run here.
ANY_MACHINE = (
    *("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"),
    *("--abi", "none", "--platform", "manylinux_2_34_x86_64"),
)


def fetch(releases: tuple[str, ...]) -> dict[str, Path]:
    """The folder `sglang/srt` of each release, downloaded where it is not there yet.

    Raises:
        RuntimeError: If a wheel cannot be downloaded.
    """
    with ThreadPoolExecutor(PARALLEL) as pool:
        return dict(zip(releases, pool.map(_sources, releases), strict=True))


def _sources(release: str) -> Path:
    installed = list(SERVER.glob(f"lib/*/site-packages/sglang-{release}.dist-info"))
    if installed:
        return installed[0].parent / "sglang" / "srt"
    kept = CACHE / release
    if not kept.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as name:
            folder = Path(name)
            _unpack(_download(release, folder), folder / "new")
            shutil.move(folder / "new", kept)  # whole or not at all
    return kept / "sglang" / "srt"


def _download(release: str, folder: Path) -> Path:
    command = (
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"),
        *("--disable-pip-version-check", "--only-binary", ":all:", *ANY_MACHINE),
        *("--dest", str(folder), f"sglang=={release}"),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{done.stderr}\nThe wheel of SGLang {release} did not come.")
    (wheel,) = folder.glob("*.whl")
    return wheel


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, _, *room = name.split("/")
            wanted = name.startswith("sglang/srt/") and room[0] in ROOMS
            if wanted and name.endswith(".py"):
                archive.extract(name, folder)
