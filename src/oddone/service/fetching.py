"""Pictures that a request names by URL: from the origins that a service was told of, and no others.

Whoever sends a URL must not lead the service to addresses that only it can reach. So the origin of
a URL has to be one of a list, no redirect is followed, and no cookie, password or proxy of this
machine is used. The URL that is checked is the object that is fetched: no second parser can read
another host in it.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import aiohttp
from yarl import URL

from oddone import __version__
from oddone.errors import SettingsError
from oddone.service.admission import AdmittedRequest
from oddone.service.problems import ProblemError
from oddone.service.settings import ServiceSettings
from oddone.service.uploads import LinkedPicture, UploadedPicture

CONNECTIONS = 8
"""At a time, for the pictures of one request."""
LONGEST_URL = 2048
HEADERS = {
    "Accept": "image/*",
    "Accept-Encoding": "identity",  # a packed answer could be larger than its length
    "User-Agent": f"oddone/{__version__}",
}


class Origin(NamedTuple):
    """Where a picture comes from."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return str(URL.build(scheme=self.scheme, host=self.host, port=self.port))


def origin_of(url: URL) -> Origin:
    """Return the origin of a URL that has a host; its port may be that of the scheme."""
    if url.host is None or url.port is None:
        raise ValueError
    return Origin(url.scheme, url.host, url.port)


def parse_origin(word: str) -> Origin:
    """Return an origin such as https://images.example.org, or one with a port of its own."""
    try:
        url = URL(word)
        nothing_else = (url.user, url.path, url.query_string, url.fragment) == (None, "/", "", "")
        if url.scheme in {"http", "https"} and nothing_else:
            return origin_of(url)
    except ValueError:
        pass
    raise SettingsError(
        f"--fetch-from {word}: write an origin, such as https://images.example.org or "
        f"http://10.0.0.7:9000, without a path"
    )


class PictureFetcher:
    """Fetches pictures from some origins, within the limits of a service."""

    def __init__(self, origins: Sequence[str], settings: ServiceSettings) -> None:
        self._origins = frozenset(map(parse_origin, origins))
        self._settings = settings

    async def fetch(
        self, sent: Sequence[UploadedPicture | LinkedPicture], admitted: AdmittedRequest
    ) -> list[UploadedPicture]:
        """Return all pictures, in order; one that is not to be had has a reason and no content."""
        urls = [self._check(each) for each in sent if isinstance(each, LinkedPicture)]
        settings = self._settings
        admitted.add_bytes(min(len(urls) * settings.file_bytes, settings.request_bytes))
        room = _Room(settings.request_bytes)
        async with aiohttp.ClientSession(
            headers=HEADERS,
            timeout=aiohttp.ClientTimeout(total=settings.fetch_seconds),
            connector=aiohttp.TCPConnector(limit=CONNECTIONS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        ) as session:
            contents = iter(
                await asyncio.gather(*(self._fetch(session, url, room) for url in urls))
            )
        return [
            each if isinstance(each, UploadedPicture) else _uploaded(each.name, next(contents))
            for each in sent
        ]

    def _check(self, picture: LinkedPicture) -> URL:
        """Return the URL of a picture, if it may be fetched."""
        try:
            url = URL(picture.url[: LONGEST_URL + 1])
            is_known = len(picture.url) <= LONGEST_URL and origin_of(url) in self._origins
        except ValueError:  # no URL, or one that has no host
            is_known = False
        if not is_known or url.user is not None or url.password is not None:
            known = ", ".join(sorted(map(str, self._origins)))
            detail = f"{picture.name}: pictures are fetched from {known} and from nowhere else"
            raise ProblemError(422, "url-refused", detail)
        return url.with_fragment(None)

    async def _fetch(self, session: aiohttp.ClientSession, url: URL, room: "_Room") -> bytes | str:
        """Return what is at a URL, or why it is not to be had."""
        try:
            async with session.get(url, allow_redirects=False) as answer:
                return await self._read(answer, room)
        except TimeoutError:
            return f"it was not there after {self._settings.fetch_seconds:g} s"
        except aiohttp.ClientSSLError:
            return "its host has no certificate that is trusted here"
        except (aiohttp.ClientError, OSError):
            return "its address cannot be reached"

    async def _read(self, answer: aiohttp.ClientResponse, room: "_Room") -> bytes | str:
        if answer.status != 200:
            redirects = 300 <= answer.status < 400
            return f"its address answers {answer.status}{', a redirect' * redirects}"
        content, most = bytearray(), self._settings.file_bytes
        async for chunk in answer.content.iter_any():
            content += chunk
            room.left -= len(chunk)
            if len(content) > most:
                return f"it has over {most:,} bytes"
            if room.left < 0:
                return f"the pictures of the request have over {room.most:,} bytes"
        return bytes(content)


class _Room:
    """How many bytes the pictures of a request may still have."""

    def __init__(self, most: int) -> None:
        self.most = self.left = most


def _uploaded(name: str, content: bytes | str) -> UploadedPicture:
    if isinstance(content, str):
        return UploadedPicture(name, b"", content)
    return UploadedPicture(name, content)
