"""A web server that breaks the rules of HTTP: what it answers is written to the socket as it is."""

import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import ClassVar

from mutations import mutated_files

LARGE = 400_000
"""Bytes of an answer that is larger than the service may take in the tests."""
PAUSE = 0.05
"""Seconds between two bytes of an answer that drips."""


def answer_with(content: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """Return an answer as a server sends it; its length is right unless a header says otherwise."""
    lines = [f"HTTP/1.1 {status}", *headers]
    if not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in lines):
        lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def broken_answers(picture: bytes) -> dict[str, bytes]:
    """Return answers that lie, stop early or have no end, each by a name."""
    chunk = f"{len(picture):x}\r\n".encode() + picture + b"\r\n"
    chunked = "Transfer-Encoding: chunked"
    return {
        "nothing": b"",
        "no-http": b"\x16\x03\x01 hello\r\n\r\n",
        "only-a-status": b"HTTP/1.1 200 OK\r\n",
        "status-of-letters": answer_with(picture, status="two hundred"),
        "status-999": answer_with(picture, status="999 ?"),
        "version-9": answer_with(picture).replace(b"HTTP/1.1", b"HTTP/9.9"),
        "bare-newlines": answer_with(picture).replace(b"\r\n", b"\n"),
        "length-too-long": answer_with(picture, "Content-Length: 1000000"),
        "length-too-short": answer_with(picture, "Content-Length: 10"),
        "length-negative": answer_with(picture, "Content-Length: -1"),
        "length-of-letters": answer_with(picture, "Content-Length: many"),
        "length-huge": answer_with(picture, f"Content-Length: {2**70}"),
        "two-lengths": answer_with(picture, "Content-Length: 5", "Content-Length: 500"),
        "length-and-chunks": answer_with(chunk, "Content-Length: 5", chunked),
        "chunks": answer_with(chunk + b"0\r\n\r\n", chunked),
        "chunks-without-end": answer_with(chunk, chunked),
        "chunk-of-letters": answer_with(b"zz\r\n" + picture, chunked),
        "chunk-negative": answer_with(b"-5\r\n" + picture, chunked),
        "chunk-huge": answer_with(b"f" * 40 + b"\r\n" + picture, chunked),
        "chunks-endless": answer_with(b"1\r\nx\r\n" * LARGE, chunked),
        "trailer-endless": answer_with(chunk + b"0\r\n" + b"a: b\r\n" * 50_000, chunked),
        "line-endless": b"HTTP/1.1 200 OK\r\nA: " + b"a" * LARGE,
        "headers-endless": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000,
        "header-with-nul": answer_with(picture, "A: \x00"),
        "header-not-utf8": answer_with(picture, "A: \xff\xfe"),
        "header-without-colon": answer_with(picture, "no colon"),
        "continue-for-ever": b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000,
        "switching": answer_with(picture, "Upgrade: h2c", status="101 Switching Protocols"),
        "no-content": answer_with(b"", status="204 No Content"),
        "packed": answer_with(picture, "Content-Encoding: gzip"),
        "redirect-to-itself": answer_with(b"", "Location: /", status="302 Found"),
        "redirect-inside": answer_with(b"", "Location: http://127.0.0.1:1/", status="301 Moved"),
        "cookies": answer_with(picture, *[f"Set-Cookie: {i}=b; Path=/" for i in range(50)]),
        "empty": answer_with(b""),
        "text": answer_with(b"<html>", "Content-Type: text/html"),
        "two-answers": answer_with(picture) * 2,
        "larger-than-allowed": answer_with(bytes(LARGE)),
    }


def mutated_answers(picture: bytes, number: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield answers with random changes, most of them in their headers."""
    answers = {name: each[:4096] for name, each in broken_answers(picture).items() if each}
    return mutated_files({**answers, "right": answer_with(picture)}, number, seed)


class _Handler(socketserver.BaseRequestHandler):
    answers: ClassVar[Mapping[str, bytes]]

    def handle(self) -> None:
        with suppress(OSError):  # the service hangs up where it has had enough
            words = self._asked().split()
            *way, name = words[1].decode().strip("/").split("/") if len(words) > 1 else [""]
            self._send(self.answers.get(name, b""), *way)

    def _asked(self) -> bytes:
        asked = b""
        while b"\r\n\r\n" not in asked and (more := self.request.recv(4096)):
            asked += more
        return asked

    def _send(self, answer: bytes, way: str = "whole") -> None:
        connection: socket.socket = self.request
        if way == "dripping":
            for byte in answer:
                connection.sendall(bytes([byte]))
                time.sleep(PAUSE)
        elif way == "reset":  # in the middle, and not as the rules are
            connection.sendall(answer[: len(answer) // 2])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif way == "silent":
            connection.sendall(answer[: len(answer) // 2])
            connection.settimeout(60)
            connection.recv(1)  # until the service hangs up
        else:
            connection.sendall(answer)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def hostile_origin(answers: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the origin of a server that has an answer for each name, at WAY/NAME.

    A way is one of whole, dripping (byte by byte), reset and silent (in the middle).
    """
    handler = type("Handler", (_Handler,), {"answers": answers})
    with _Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
