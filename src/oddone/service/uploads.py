"""The pictures of a request: files of a form, or JSON with base64 or URLs; all bounded."""

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

import msgspec
from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from oddone.service.problems import ProblemError
from oddone.service.settings import ServiceSettings

LONGEST_NAME = 200
MOST_FIELDS = 100
"""Parts of a form that are no files; they are not looked at."""
FORM, JSON = "multipart/form-data", "application/json"


class UploadedPicture(NamedTuple):
    """A file that a client sent, or that was fetched for it."""

    name: str
    content: bytes
    reason: str | None = None
    """Why it could not be fetched; then it has no content."""


class LinkedPicture(NamedTuple):
    """A picture that a client names by its URL."""

    name: str
    url: str


class _EncodedPicture(msgspec.Struct, forbid_unknown_fields=True):
    data: bytes | msgspec.UnsetType = msgspec.UNSET  # base64
    url: str | msgspec.UnsetType = msgspec.UNSET
    name: str = ""


class _EncodedPictures(msgspec.Struct, forbid_unknown_fields=True):
    images: list[_EncodedPicture]


def declared_bytes(request: Request, settings: ServiceSettings) -> int:
    """Return how long a request says it is; without a length, how long it may be at most."""
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        return settings.request_bytes
    if len(length) > 15 or int(length) > settings.request_bytes:
        raise _too_long(settings)
    return int(length)


async def read_pictures(
    request: Request, settings: ServiceSettings
) -> list[UploadedPicture | LinkedPicture]:
    """Return the pictures of a request, one at least, in order."""
    body = await read_body(request, settings, FORM, JSON)
    pictures = (
        parse_json(body) if _kind(request) == JSON else await _parse_form(request, body, settings)
    )
    if not pictures:
        raise ProblemError(422, "no-images", "the request has no picture; send one at least")
    if len(pictures) > settings.files:
        detail = f"{len(pictures)} pictures; send at most {settings.files} in a request"
        raise ProblemError(413, "too-many-files", detail)
    for picture in pictures:
        if isinstance(picture, UploadedPicture) and len(picture.content) > settings.file_bytes:
            raise ProblemError(
                413,
                "file-too-large",
                f"{picture.name} has {len(picture.content):,} bytes; send at most "
                f"{settings.file_bytes:,}",
            )
    return pictures


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, settings: ServiceSettings, *kinds: str) -> bytes:
    """Return the body of a request of such a kind that is neither too long nor too slow."""
    if _kind(request) not in kinds:
        sent = _kind(request)[:50] or "an unnamed type"
        raise ProblemError(415, "media-type", f"send {' or '.join(kinds)}, not {sent}")
    body = bytearray()
    try:
        async with asyncio.timeout(settings.upload_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > settings.request_bytes:
                    raise _too_long(settings)
    except TimeoutError as error:
        detail = f"the request was not there after {settings.upload_seconds:g} s"
        raise ProblemError(408, "slow-client", detail, {"Connection": "close"}) from error
    except ClientDisconnect as error:
        raise ProblemError(400, "disconnected", "the client has gone") from error
    return bytes(body)


def parse_json(body: bytes) -> list[UploadedPicture | LinkedPicture]:
    """Return the pictures in JSON such as {"images": [{"name": "a.png", "data": "iVBOR..."}]}.

    In the place of "data" there may be a "url".
    """
    try:
        sent = msgspec.json.decode(body, type=_EncodedPictures)
    except msgspec.ValidationError as error:
        raise ProblemError(422, "invalid", str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError(400, "malformed", f"the body is no JSON: {error}"[:300]) from error
    return [_parse_picture(picture, place) for place, picture in enumerate(sent.images)]


def _parse_picture(picture: _EncodedPicture, place: int) -> UploadedPicture | LinkedPicture:
    data, url = picture.data, picture.url
    if isinstance(data, bytes) and url is msgspec.UNSET:
        return UploadedPicture(_shown(picture.name, place), data)
    if isinstance(url, str) and data is msgspec.UNSET:
        path = url.partition("?")[0].partition("#")[0]
        return LinkedPicture(_shown(picture.name or path, place), url)
    detail = f"$.images[{place}]: write either data or url"
    raise ProblemError(422, "invalid", detail)


async def _parse_form(
    request: Request, body: bytes, settings: ServiceSettings
) -> list[UploadedPicture | LinkedPicture]:
    parser = MultiPartParser(
        request.headers,
        _in_one_part(body),
        max_files=settings.files + 1,  # more than so many is told below, with another status
        max_fields=MOST_FIELDS,
    )
    parser.spool_max_size = settings.request_bytes + 1  # never a temporary file
    try:
        form = await parser.parse()
    except MultiPartException as error:
        if "Too many files" in error.message:
            detail = f"send at most {settings.files} pictures in a request"
            raise ProblemError(413, "too-many-files", detail) from error
        raise ProblemError(400, "malformed", f"the form cannot be read: {error.message}") from error
    try:
        files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
        return [
            UploadedPicture(_shown(file.filename or "", place), await file.read())
            for place, file in enumerate(files)
        ]
    finally:
        await form.close()


async def _in_one_part(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


def _shown(name: str, place: int) -> str:
    """Return the last part of a file's name, in one printable line; else its place."""
    last = name.replace("\\", "/").rpartition("/")[2]
    printable = "".join(mark if mark.isprintable() else " " for mark in last)
    return " ".join(printable.split())[:LONGEST_NAME] or f"image {place}"


def _too_long(settings: ServiceSettings) -> ProblemError:
    detail = f"the request has over {settings.request_bytes:,} bytes; send fewer or smaller files"
    return ProblemError(413, "request-too-large", detail, {"Connection": "close"})
