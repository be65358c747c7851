"""The HTTP API, the live stream, the receiver and the page, put together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path as FilePath
from typing import Annotated

import msgspec
from fastapi import APIRouter, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse

from spectrace.analysis.run_report import report
from spectrace.errors import SpectraceError
from spectrace.server.attach_routes import attach_router
from spectrace.server.attacher import Attacher
from spectrace.server.comparisons import Comparisons
from spectrace.server.control_routes import control_router
from spectrace.server.distributions import Distributions
from spectrace.server.export_routes import export_router
from spectrace.server.exports import Exports
from spectrace.server.hub import Hub
from spectrace.server.intake import Intake
from spectrace.server.kernel_routes import kernel_router
from spectrace.server.live import MOST_LISTENERS
from spectrace.server.metrics import metrics_router
from spectrace.server.one_reader import OneReader
from spectrace.server.overviews import Overviews
from spectrace.server.parameters import INT64, Group, Number, RunId, check_run, no_cycle
from spectrace.server.receiver import PATH, Receiver
from spectrace.server.record_routes import record_router
from spectrace.server.requests import MAX_SPANS, encode_stored
from spectrace.server.security import Guard
from spectrace.server.served import served_history, served_page
from spectrace.server.static import PAGE, page_files
from spectrace.server.token import Token
from spectrace.server.wire import encode_cycle, encode_list
from spectrace.store.source import PAGE as PAGE_CYCLES
from spectrace.store.source import TraceKey

MOST_CYCLES = 2000  # of one answer
MOST_REQUESTS = 500  # likewise
PAGE_REQUESTS = 100  # of one answer when nobody says how many
_MOST_MS = 1e9
_TRACE_KEY = "^[0-9]{1,19}-[0-9a-f]{32}$"
_METHODS = ["POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]


def create_app(  # noqa: PLR0913 - the parts that it puts together
    hub: Hub,
    intake: Intake | None,
    *,
    hosts: Iterable[str] = (),
    token: Token | None = None,
    attacher: Attacher | None = None,
    page: FilePath = PAGE,
) -> FastAPI:
    """The application around a hub.

    Args:
        hub: Where cycles come from and go to.
        intake: Where spans go that are sent here; None where nothing is received.
        hosts: Host names that are allowed beside those of loopback.
        token: What has to be shown; None for nothing.
        attacher: Attaches to servers of this machine; None where nothing new can come.
        page: Directory of the built page.
    """
    exports = Exports(hub.store)
    app = FastAPI(
        title="spectrace",
        openapi_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        lifespan=lambda _: _running(hub, intake, exports),
    )
    app.add_exception_handler(SpectraceError, _said)
    app.include_router(_api(hub))
    app.include_router(control_router(hub.control_of))
    app.include_router(kernel_router(hub))
    app.include_router(record_router(hub))
    if attacher is not None:
        app.include_router(attach_router(attacher))
    app.include_router(export_router(hub, exports, has_token=token is not None))
    if intake is not None:
        app.add_api_route(PATH, Receiver(intake).answer, methods=_METHODS)
    if hub.receives:
        app.include_router(metrics_router(hub.meter))
    app.mount("/", page_files(page))
    app.add_middleware(Guard, hosts=tuple(hosts), token=token)
    return app


@contextlib.asynccontextmanager
async def _running(hub: Hub, intake: Intake | None, exports: Exports) -> AsyncIterator[None]:
    """Keeps the hub and the intake at work while the server runs."""
    loops = [hub.run()] if intake is None else [hub.run(), intake.run()]
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        hub.pass_on()
        exports.close()


def _api(hub: Hub) -> APIRouter:
    """The routes under `/api`. What asks the store is no coroutine: it runs in a thread."""
    api = APIRouter(prefix="/api")
    _add_requests(api, hub)
    _add_looks(api, hub)

    @api.get("/state")
    async def state() -> Response:
        return _json(hub.encoded_state())

    @api.get("/runs/{run}/cycles")
    def cycles(
        run: RunId,
        group: Group = "",
        before: Annotated[int | None, Query(ge=0, le=INT64)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_CYCLES)] = PAGE_CYCLES,
    ) -> Response:
        check_run(hub, run)
        found = hub.store.cycles(run, group=group, before=before, limit=limit)
        return _json(b'{"cycles":' + encode_list(map(encode_cycle, found)) + b"}")

    @api.get("/runs/{run}/cycles/{n}")
    def cycle(run: RunId, n: Number, group: Group = "") -> Response:
        check_run(hub, run)
        found = hub.store.cycle(run, group, n)
        if found is None:
            raise no_cycle(n)
        return _json(encode_cycle(found))

    @api.get("/runs/{run}/report")
    def run_report(
        run: RunId, baseline_ms: Annotated[float | None, Query(gt=0, le=_MOST_MS)] = None
    ) -> Response:
        check_run(hub, run)
        try:
            measures = hub.store.measure(run)
        except SpectraceError as error:
            raise HTTPException(404, str(error)) from error
        return _json(msgspec.json.encode(report(measures, plain_ms=baseline_ms)))

    @api.get("/live")
    async def live() -> Response:
        if hub.live.listeners >= MOST_LISTENERS:
            raise HTTPException(503, "Too many pages are open: close one.", {"connection": "close"})
        return EventSourceResponse(hub.live.stream(hub.greeting))

    return api


def _add_looks(api: APIRouter, hub: Hub) -> None:
    """The routes of what stored cycles show; they check their parameters themselves."""
    reader = OneReader()
    distributions, comparisons = Distributions(hub.store, reader), Comparisons(hub, reader)
    overviews = Overviews(hub.store, reader)

    @api.get("/compare")
    def compare(request: Request) -> Response:
        return _json(comparisons.answer(request.query_params))

    @api.get("/runs/{run}/overview")
    def overview(run: str, request: Request) -> Response:
        check_run(hub, run)
        return _json(overviews.answer(run, request.query_params))

    @api.get("/runs/{run}/distribution")
    def spread(run: str, request: Request) -> Response:
        check_run(hub, run)
        return _json(distributions.answer(run, request.query_params))

    @api.get("/runs/{run}/distribution/cycles")
    def cycles_of_bar(run: str, request: Request) -> Response:
        check_run(hub, run)
        return _json(distributions.bar(run, request.query_params))

    @api.get("/runs/{run}/requests")
    def requests_of_run(run: str, request: Request) -> Response:
        check_run(hub, run)
        return _json(served_page(hub.store, run, request.query_params))

    @api.get("/runs/{run}/request")
    def request_of_run(run: str, request: Request) -> Response:
        check_run(hub, run)
        return _json(served_history(hub.store, run, request.query_params))


def _add_requests(api: APIRouter, hub: Hub) -> None:
    """The routes of requests that others trace."""

    @api.get("/requests")
    async def requests() -> Response:
        return _json(b'{"requests":' + encode_list(hub.requests.newest(MOST_REQUESTS)) + b"}")

    @api.get("/requests/stored")
    def stored_requests(
        before: Annotated[str | None, Query(pattern=_TRACE_KEY)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_REQUESTS)] = PAGE_REQUESTS,
    ) -> Response:
        found = hub.store.other_traces(_trace_key(before), limit, MAX_SPANS)
        last = found[-1] if len(found) == limit else None
        rest = last and f"{last.first_ns}-{last.trace_id}"
        body = b'{"requests":%b,"before":%b}'
        return _json(body % (encode_list(map(encode_stored, found)), msgspec.json.encode(rest)))


def _trace_key(text: str | None) -> TraceKey | None:
    """What `before` of an answer means when it is given back."""
    if text is None:
        return None
    first_ns, trace_id = text.split("-")
    return min(int(first_ns), INT64), trace_id


async def _said(_: Request, error: Exception) -> Response:
    """What the store refuses, as where a file is damaged: its sentence, as of other errors."""
    return JSONResponse({"detail": str(error)}, status_code=500)


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")
