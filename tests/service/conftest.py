"""A small service in this process, and a client that talks to it as HTTP does."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="oddone[service] is not installed")

from starlette.testclient import TestClient

from oddone.cli.serve import make_fetcher
from oddone.service.app import make_app
from oddone.service.service import Service
from oddone.service.settings import ServiceSettings
from runs import tiny_source
from small_detector import fitted

StartService = Callable[..., TestClient]


@pytest.fixture(scope="session")
def tiny_detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a detector for images of 16 pixels."""
    path = tmp_path_factory.mktemp("served") / "tiny.oddone"
    fitted().save(path)
    return path


@pytest.fixture(scope="session")
def pictures() -> dict[str, bytes]:
    """Return eight PNG files."""
    return {
        f"{number}.png": as_png(image)
        for number, image in enumerate(tiny_source(images=8, seed=5).images)
    }


def as_png(image: np.ndarray) -> bytes:
    file = BytesIO()
    Image.fromarray(image.transpose(1, 2, 0)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def start(tiny_detector: Path) -> Iterator[StartService]:
    """Return a function that starts a service with these limits and returns its client."""
    with ExitStack() as stack:

        def start_service(
            *,
            paths: dict[str, Path] | None = None,
            token: str | None = None,
            feedback: Path | None = None,
            draw: object = None,
            fetch_from: Sequence[str] = (),
            **limits: object,
        ) -> TestClient:
            settings = ServiceSettings(**{"decoders": 1, **limits})  # type: ignore[arg-type]
            service = Service(
                paths or {"tiny": tiny_detector},
                settings,
                feedback=feedback,
                draw=draw,  # type: ignore[arg-type]
                fetcher=make_fetcher(fetch_from, settings),
            )
            return stack.enter_context(TestClient(make_app(service, token)))

        yield start_service


@pytest.fixture(scope="module")
def client(tiny_detector: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Return the client of a service that the tests of a file share."""
    feedback = tmp_path_factory.mktemp("feedback") / "feedback.sqlite"
    settings = ServiceSettings(decoders=1)
    service = Service({"tiny": tiny_detector}, settings, feedback=feedback)
    with TestClient(make_app(service)) as client:
        yield client
