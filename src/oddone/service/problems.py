"""Errors as RFC 9457 has them: `application/problem+json` with type, title, status and detail."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


class ProblemError(Exception):
    """A request that gets no result; the message says what to change."""

    def __init__(
        self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        """What it is, in a word or two that never change; it is part of the type."""
        self.headers = dict(headers or {})


def problem_response(problem: ProblemError) -> Response:
    """Return the answer to a request that went wrong."""
    content = {
        "type": f"urn:oddone:problem:{problem.kind}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": str(problem),
    }
    return Response(
        msgspec.json.encode(content),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=problem.headers,
    )


def busy(kind: str, detail: str, seconds: int) -> ProblemError:
    """Return the refusal of a request that may be sent again in so many seconds."""
    return ProblemError(429, kind, detail, {"Retry-After": str(seconds)})


def explain_problems(app: FastAPI) -> None:
    """Let an app answer all its errors as problems, those of FastAPI and Starlette too."""

    @app.exception_handler(ProblemError)
    async def _problem(_: Request, error: ProblemError) -> Response:
        return problem_response(error)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem_response(ProblemError(422, "invalid", f"{where}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        kind, detail = f"http-{error.status_code}", str(error.detail)
        if error.status_code == HTTPStatus.NOT_FOUND:
            kind, detail = (
                "not-found",
                "there is nothing at this address; /docs lists what there is",
            )
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            kind, detail = "method-not-allowed", f"{request.method} is not for this address"
        problem = ProblemError(error.status_code, kind, detail, error.headers)
        return problem_response(problem)
