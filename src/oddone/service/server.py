"""A service on a port, until a signal ends it."""

import asyncio
import errno
import signal
import socket

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from oddone.errors import SettingsError
from oddone.service.app import make_app
from oddone.service.service import Service

MOST_CONNECTIONS = 1000
BACKLOG = 512
SECONDS_IDLE = 15
"""How long a client that has its answer may stay connected."""
SECONDS_TO_FINISH = 60
"""How long requests may take that are there when the service is told to end."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that clients can connect to, before anything else takes long."""
    if not 0 < port < 2**16:
        raise SettingsError(f"port={port}: choose one from 1 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        ((*_, address),) = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[:1]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except (socket.gaierror, UnicodeError) as error:
        raise _not_here(host) from error
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise _not_here(host) from error
        why = str(error.strerror).partition(" (")[0]  # Python adds what it attempted
        raise SettingsError(
            f"port {port} of {host} cannot be used: {why}; choose another --port"
        ) from error


def _not_here(host: str) -> SettingsError:
    return SettingsError(
        f"--host {host!r} is no address of this machine; choose one, such as 127.0.0.1, or 0.0.0.0 "
        f"for all of them"
    )


def run_server(service: Service, listening: socket.socket, *, token: str | None) -> None:
    """Serve until SIGINT or SIGTERM, and finish what was begun. SIGHUP loads the files anew."""
    header_seconds = service.settings.header_seconds

    class ImpatientProtocol(H11Protocol):
        """HTTP with clients that have to send their headers in time; uvicorn itself waits."""

        late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.late = self.loop.call_later(header_seconds, self.transport.abort)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            begun = self.conn.their_state is not h11.IDLE
            if begun and self.late is not None:
                self.late.cancel()
                self.late = None
            elif not begun and self.late is None and self.conn.trailing_data[0]:
                self.late = self.loop.call_later(header_seconds, self.transport.abort)

        def connection_lost(self, exc: Exception | None) -> None:
            if self.late is not None:
                self.late.cancel()
            super().connection_lost(exc)

    config = uvicorn.Config(
        make_app(service, token),
        http=ImpatientProtocol,
        ws="none",
        lifespan="on",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=SECONDS_IDLE,
        timeout_graceful_shutdown=SECONDS_TO_FINISH,
        server_header=False,
        access_log=False,
        log_level="info",
    )
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, _ignore)  # uvicorn raises them once more when it has finished
    asyncio.run(_serve(uvicorn.Server(config), service, listening))


def _ignore(_number: int, _frame: object) -> None:
    """Let a signal that has done its work have no other effect."""


async def _serve(server: uvicorn.Server, service: Service, listening: socket.socket) -> None:
    if hasattr(signal, "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.reload_soon)
    await server.serve(sockets=[listening])
