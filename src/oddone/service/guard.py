"""What every request passes: its origin, the token, headers for browsers, the measurements."""

import hmac
import logging
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oddone.service.problems import ProblemError, problem_response

LOG = logging.getLogger("oddone.service")
OPEN = ("/", "/page.js", "/page.css", "/docs", "/docs.js", "/openapi.json", "/healthz", "/readyz")
"""Addresses that need no token: the page asks for it, and what looks at the health has none."""
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}

METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE")
Observe = Callable[[str, str, int, float], None]
"""Called with method, route, status and seconds of each request."""


class Guard:
    """ASGI middleware around the whole app; whatever it raises becomes a problem of status 500."""

    def __init__(self, app: ASGIApp, *, token: str | None, observe: Observe) -> None:
        self._app, self._observe = app, observe
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = 0, time.monotonic()

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, send_guarded)
        except ProblemError as problem:
            await problem_response(problem)(scope, receive, send_guarded)
        except Exception:
            LOG.exception("a request failed: %s %s", scope["method"], scope["path"][:200])
            if status == 0:
                fault = ProblemError(500, "internal", "this is a fault of the service")
                await problem_response(fault)(scope, receive, send_guarded)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._observe(method, route, status, time.monotonic() - began)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            raise ProblemError(403, "other-origin", "requests from pages of others are refused")
        if self._token is None or scope["path"] in OPEN:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(errors="replace"), self._token)
        if scheme.lower() != "bearer" or not right:
            detail = "send the header Authorization: Bearer TOKEN with the token of this service"
            raise ProblemError(401, "token", detail, {"WWW-Authenticate": "Bearer"})
