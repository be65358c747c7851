"""The page's files, as the build of `ui/` left them in this package."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

PAGE = Path(__file__).with_name("page")
_NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>spectrace</title></head>
<body><p>spectrace is running, but its page has not been built. In a checkout, run
<code>npm --prefix ui ci</code> and <code>npm --prefix ui run build</code>, then start spectrace
again. A released wheel of spectrace brings its page along.</p></body></html>
"""


def page_files(directory: Path = PAGE) -> ASGIApp:
    """Serves the built page, or a sentence on how to build it."""
    if (directory / "index.html").is_file():
        return StaticFiles(directory=directory, html=True)
    return HTMLResponse(_NOT_BUILT, status_code=503)
