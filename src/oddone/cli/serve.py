"""`oddone serve`: detectors behind HTTP, with a page for people."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from cyclopts import App, Parameter
from jaxtyping import UInt8

from oddone.cli.options import REPEATED, digest_of_each
from oddone.cli.terminal import note
from oddone.errors import SettingsError
from oddone.service.settings import ServiceSettings

if TYPE_CHECKING:
    from oddone.detector import Detector, Explanation
    from oddone.service.fetching import PictureFetcher
    from oddone.service.service import DrawExplanation

TOKEN = "ODDONE_TOKEN"  # noqa: S105  (the name of a variable)
LEAST_TOKEN = 16
LOOPBACK = ("127.0.0.1", "::1", "localhost")

app = App(name="serve")


@app.default
def serve(
    detector: str,
    /,
    *others: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    feedback: Path | None = None,
    token_file: Path | None = None,
    fetch_from: Annotated[tuple[str, ...], REPEATED] = (),
    sha256: Annotated[tuple[str, ...], REPEATED] = (),
    limits: Annotated[ServiceSettings, Parameter(name="*")] = ServiceSettings(),  # noqa: B008
) -> None:
    """Serve detectors over HTTP: a page at /, verdicts at /v1/score, what there is at /docs.

    It ends with Ctrl-C or SIGTERM, after it has answered what it has. A file that changes is loaded
    anew, on SIGHUP at once.

    Examples: `oddone serve run`, `oddone serve birds.oddone weeds=weeds.oddone --port 9000`,
    `ODDONE_TOKEN=... oddone serve run --host 0.0.0.0 --feedback feedback.sqlite`.

    Parameters
    ----------
    detector
        The directory of a finished run, or the file of a detector; NAME=FILE gives it a name.
    others
        More detectors, as NAME=FILE, which requests choose by their names.
    host
        The address to listen on; 0.0.0.0 for all of this machine.
    port
        The port to listen on.
    feedback
        An SQLite file for what users say of verdicts, for oddone calibrate --from-service.
    token_file
        A file with the token that requests must have; or set the variable ODDONE_TOKEN.
    fetch_from
        An origin, such as https://images.example.org, from which pictures are fetched that requests
        name by URL; may be given several times. None unless set.
    sha256
        The SHA-256 that the detector's file must have, also when it changes, as `sha256sum` prints
        it; for several detectors, give it once for each, in their order.
    """
    paths = detectors_by_name([detector, *others])
    digests = dict(zip(paths, digest_of_each(sha256, len(paths)), strict=True))
    token = read_token(token_file)
    host = host.removeprefix("[").removesuffix("]")  # as IPv6 stands in URLs
    fetcher = make_fetcher(fetch_from, limits)
    try:
        from oddone.service.server import listen, run_server  # noqa: PLC0415  (an extra)
        from oddone.service.service import Service  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            f"oddone serve needs a package that is not here ({error.name}): "
            f"pip install 'oddone[service]'"
        ) from error
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    with listen(host, port) as listening:
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if token is None and host not in LOOPBACK:
            note(f"anybody who reaches {where} may use it; set {TOKEN} or --token-file")
        service = Service(
            paths, limits, feedback=feedback, draw=_drawing(), fetcher=fetcher, sha256=digests
        )
        note(f"{', '.join(paths)} at http://{where}/")
        run_server(service, listening, token=token)


def detectors_by_name(words: Sequence[str]) -> dict[str, Path]:
    """Return the file of each detector by its name, which by default is that of the file.

    A path may have an equals sign too: a word with a slash before it, or that is there as it
    stands, is a path.
    """
    paths: dict[str, Path] = {}
    for word in words:
        name, separator, file = word.partition("=")
        is_named = separator and not {"/", os.sep} & set(name) and not Path(word).exists()
        path = Path(file if is_named else word)
        name = name if is_named else path.resolve().stem
        if not name.isprintable() or not name or name in paths:
            raise SettingsError(f"{word}: write NAME=FILE, with a name that no other has")
        paths[name] = path
    return paths


def read_token(file: Path | None) -> str | None:
    """Return the token of a file, or of the environment; None where there is none."""
    if file is not None:
        token, where = file.read_bytes().decode(errors="replace").strip(), f"the token in {file}"
    elif TOKEN in os.environ:
        token, where = os.environ[TOKEN], f"the token in {TOKEN}"
    else:
        return None
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable():
        raise SettingsError(
            f"{where} has {len(token)} characters; choose {LEAST_TOKEN} or more printable ASCII "
            f"ones, such as those of: openssl rand -hex 32"
        )
    return token


def make_fetcher(origins: Sequence[str], limits: ServiceSettings) -> "PictureFetcher | None":
    """Return what fetches pictures by URL; None where no origin is named."""
    if not origins:
        return None
    try:
        from oddone.service.fetching import PictureFetcher  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise SettingsError(
            f"--fetch-from needs a package that is not here ({error.name}): "
            f"pip install 'oddone[service,remote]'"
        ) from error
    return PictureFetcher(origins, limits)


def _drawing() -> "DrawExplanation | None":
    """Return what draws an explanation; None where the packages for figures are missing."""
    try:
        from oddone.report import draw_explanation  # noqa: PLC0415  (an extra)
        from oddone.report.style import figure_bytes  # noqa: PLC0415
    except SettingsError:
        return None

    def draw(
        detector: "Detector",
        image: UInt8[np.ndarray, "3 size size"],
        explanation: "Explanation",
        title: str,
    ) -> bytes:
        return figure_bytes(draw_explanation(detector, image, explanation, title=title), ".png")

    return draw
