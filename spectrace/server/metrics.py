"""The endpoint `/metrics`, which Prometheus asks."""

from __future__ import annotations

import gzip

from fastapi import APIRouter, Request, Response

from spectrace.metrics.meter import Meter

_SMALL_BYTES = 1000  # below, compressing gains nothing


def metrics_router(meter: Meter) -> APIRouter:
    """The route that gives the metrics of a meter.

    Args:
        meter: It is read in a thread, so that the event loop need not wait.
    """
    router = APIRouter()

    @router.get("/metrics")
    def metrics(request: Request) -> Response:
        from spectrace.metrics.exposition import expose  # noqa: PLC0415 - takes long, few ask for it

        body, content_type = expose(meter.read(), request.headers.get("accept", ""))
        headers = {"content-type": content_type, "vary": "accept, accept-encoding"}
        if len(body) > _SMALL_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
            body = gzip.compress(body, compresslevel=1, mtime=0)
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers)

    return router
