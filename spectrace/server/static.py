"""The page's files, as the build of `ui/` left them in this package."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

_FOR_GOOD = "public, max-age=31536000, immutable"
PAGE = Path(__file__).with_name("page")
_NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>spectrace</title></head>
<body><p>spectrace is running, but its page has not been built. In a checkout, run
<code>npm --prefix ui ci</code> and <code>npm --prefix ui run build</code>, then start spectrace
again. A released wheel of spectrace brings its page along.</p></body></html>
"""


class _Files(StaticFiles):
    """Files with how long a browser may keep them: the names of assets change with them."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        lasting = path.startswith("assets/") and response.status_code == HTTPStatus.OK
        response.headers["Cache-Control"] = _FOR_GOOD if lasting else "no-cache"
        return response


def page_files(directory: Path = PAGE) -> ASGIApp:
    """Serves the built page, or a sentence on how to build it."""
    if (directory / "index.html").is_file():
        return _Files(directory=directory, html=True)
    return HTMLResponse(_NOT_BUILT, status_code=503)
