"""The addresses of the service."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any

import msgspec
from fastapi import Depends, FastAPI, Query, Request
from starlette.responses import Response

from oddone import __version__
from oddone.service.answers import (
    EXAMPLE,
    ExplainAnswer,
    FeedbackAnswer,
    FeedbackRequest,
    HealthAnswer,
    ImageAnswer,
    ModelAnswer,
    ProblemAnswer,
    ScoreAnswer,
    detector_answer,
    parse_feedback,
)
from oddone.service.guard import Guard
from oddone.service.problems import MEDIA_TYPE, ProblemError, explain_problems
from oddone.service.service import Service
from oddone.service.settings import ServiceSettings
from oddone.service.uploads import FORM, JSON, declared_bytes, read_body, read_pictures

PNG = "image/png"
PAGE = files("oddone.service") / "page"
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)
Detector = Annotated[
    str | None, Query(description="The name of a detector; the first one unless set.")
]


async def _service_of(request: Request) -> Service:
    """Return the service that a request is for.

    Addresses ask for it instead of holding it: FastAPI remembers their functions in the process for
    ever, and with them would all that they hold, after a service has stopped.
    """
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(_service_of)]


def make_app(service: Service, token: str | None = None) -> FastAPI:
    """Return the ASGI app of a service, which starts and stops it; with a token if one is set."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="oddone",
        version=__version__,
        summary="An image classifier that knows when it is looking at something it has never seen.",
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        responses=_problems(404, 405),
    )
    app.state.service = service
    explain_problems(app)
    measurements = service.measurements

    def observe(method: str, route: str, status: int, seconds: float) -> None:
        measurements.requests.labels(method, route, status).inc()
        measurements.request_seconds.labels(route).observe(seconds)

    app.add_middleware(Guard, token=token, observe=observe)
    _add_scoring(app, service.settings, fetches=service.fetcher is not None)
    _add_facts(app, service.settings)
    _add_page(app)
    # FastAPI leaves null out of examples, as if it were not said.
    app.openapi()["components"]["schemas"][ImageAnswer.__name__]["example"] = EXAMPLE
    return app


def _add_scoring(app: FastAPI, settings: ServiceSettings, *, fetches: bool) -> None:
    refusals = _problems(400, 401, 403, 408, 413, 415, 422, 429, 500, 503)

    @app.post(
        "/v1/score",
        response_model=ScoreAnswer,
        responses=refusals,
        openapi_extra=_pictures_schema(settings.files, fetches=fetches),
    )
    async def score(request: Request, service: Served, detector: Detector = None) -> Response:
        """Return the verdict on every picture of the request, in order.

        A file that cannot be read as a picture has a reason and no verdict.
        """
        loaded = service.detectors.find(detector)
        with service.admission.request(declared_bytes(request, settings)) as admitted:
            sent = await read_pictures(request, settings)
            admitted.add_images(len(sent) - 1)
            pictures = await service.fetch(sent, admitted)
            images = await service.score(loaded, pictures)
        return _json({"detector": loaded.name, "detector_sha256": loaded.sha256, "images": images})

    @app.post(
        "/v1/explain",
        response_model=ExplainAnswer,
        responses={200: {"content": {PNG: {}}}, **refusals, **_problems(406)},
        openapi_extra=_pictures_schema(1, fetches=fetches),
    )
    async def explain(request: Request, service: Served, detector: Detector = None) -> Response:
        """Return why one picture got its verdict: its views, and training images that look like it.

        With `Accept: image/png`, it is drawn.
        """
        loaded = service.detectors.find(detector)
        as_png = PNG in request.headers.get("accept", "")
        if as_png and service.draw is None:
            detail = "drawings need a package that this service has not: oddone[report]"
            raise ProblemError(406, "no-drawings", detail)
        with service.admission.request(declared_bytes(request, settings)) as admitted:
            sent = await read_pictures(request, settings)
            if len(sent) > 1:
                detail = f"{len(sent)} pictures; send one to be explained"
                raise ProblemError(422, "too-many-files", detail)
            [picture] = await service.fetch(sent, admitted)
            answer = await service.explain(loaded, picture, as_png=as_png)
        return Response(answer, media_type=PNG) if isinstance(answer, bytes) else _json(answer)

    @app.post(
        "/v1/feedback",
        response_model=FeedbackAnswer,
        status_code=201,
        responses=_problems(400, 401, 403, 408, 413, 415, 422, 429, 500, 507),
        openapi_extra=_feedback_schema(),
    )
    async def feedback(request: Request, service: Served) -> Response:
        """Store what a user says of a verdict; the answer comes when it is on the disk."""
        with service.admission.request(declared_bytes(request, settings), images=0):
            sent = parse_feedback(await read_body(request, settings, JSON))
        return _json({"number": await service.store_feedback(sent)}, 201)


def _add_facts(app: FastAPI, settings: ServiceSettings) -> None:
    @app.get("/v1/model", response_model=ModelAnswer, responses=_problems(401, 403))
    async def model(service: Served) -> Response:
        """Return what is served: classes, thresholds, limits, and whether there is drift."""
        limits = ("file_bytes", "request_bytes", "files", "pixels")
        return _json(
            {
                "version": __version__,
                "feedback": service.feedback is not None,
                "limits": {name: getattr(settings, name) for name in limits},
                "detectors": list(map(detector_answer, service.detectors.by_name.values())),
            }
        )

    @app.get("/healthz", response_model=HealthAnswer)
    async def healthz() -> Response:
        """Return that the process answers."""
        return _json({"status": "ok"})

    @app.get("/readyz", response_model=HealthAnswer, responses=_problems(503))
    async def readyz(service: Served) -> Response:
        """Return whether there is room for another picture."""
        try:
            service.admission.check(1)
        except ProblemError as full:
            raise ProblemError(503, full.kind, str(full), full.headers) from full
        return _json({"status": "ok"})

    # Some ask by HEAD.
    app.add_api_route("/healthz", healthz, methods=["HEAD"], include_in_schema=False)
    app.add_api_route("/readyz", readyz, methods=["HEAD"], include_in_schema=False)

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **_problems(401, 403)},
    )
    async def metrics(service: Served) -> Response:
        """Return measurements for Prometheus."""
        return Response(service.measurements.page(), media_type="text/plain; version=0.0.4")


def _add_page(app: FastAPI) -> None:
    """Add the page and the page on this API, of which nothing comes from elsewhere."""
    for address, name, kind in (
        ("/", "page.html", "text/html"),
        ("/page.css", "page.css", "text/css"),
        ("/page.js", "page.js", "text/javascript"),
        ("/docs", "docs.html", "text/html"),
        ("/docs.js", "docs.js", "text/javascript"),
    ):
        handler = _sends((PAGE / name).read_bytes(), kind)
        app.add_api_route(address, handler, methods=["GET", "HEAD"], include_in_schema=False)


def _sends(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def page() -> Response:
        return Response(content, media_type=kind)

    return page


def _json(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type=JSON)


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of problems with these statuses."""
    schema = ProblemAnswer.model_json_schema()
    return {
        status: {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }


def _feedback_schema() -> dict[str, Any]:
    schema = FeedbackRequest.model_json_schema()
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}


def _pictures_schema(files: int, *, fetches: bool) -> dict[str, Any]:
    """Return how pictures are sent: the bodies are read by hand, within their limits."""
    file = {"type": "string", "contentMediaType": "application/octet-stream"}
    several = {"type": "array", "minItems": 1, "maxItems": files}
    ways = {"data": {"type": "string", "contentEncoding": "base64"}}
    if fetches:
        ways["url"] = {"type": "string", "format": "uri"}
    encoded = {
        "oneOf": [
            {
                "type": "object",
                "required": [way],
                "additionalProperties": False,
                "properties": {"name": {"type": "string"}, way: schema},
            }
            for way, schema in ways.items()
        ]
    }
    return {
        "requestBody": {
            "required": True,
            "content": {
                FORM: {
                    "schema": {
                        "type": "object",
                        "required": ["files"],
                        "properties": {"files": {**several, "items": file}},
                    }
                },
                JSON: {
                    "schema": {
                        "type": "object",
                        "required": ["images"],
                        "additionalProperties": False,
                        "properties": {"images": {**several, "items": encoded}},
                    },
                    "examples": {
                        "one pixel": {"value": {"images": [{"name": "pixel.png", "data": _PIXEL}]}}
                    },
                },
            },
        }
    }
