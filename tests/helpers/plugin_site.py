"""spectrace installed as for a server's environment, in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def plugin_site() -> Iterator[Path]:
    """A folder for PYTHONPATH with what `pip install --no-deps spectrace` brings, no more."""
    with tempfile.TemporaryDirectory(prefix="spectrace-site-") as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run(
            [*pip, "--no-build-isolation", "--target", folder, str(ROOT)],
            check=True,
            capture_output=True,
        )
        yield Path(folder)
