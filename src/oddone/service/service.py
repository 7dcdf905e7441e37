"""What happens to pictures in a service: decoded, gathered into batches, scored or explained."""

import asyncio
import hashlib
import math
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import UInt8

from oddone.data.stream import StreamedImage
from oddone.detector import Detector, Explanation, ScoredImage
from oddone.service.admission import Admission, AdmittedRequest
from oddone.service.answers import FeedbackRequest, explain_answer, image_answer
from oddone.service.decoders import DecoderPool
from oddone.service.feedback import Feedback, FeedbackStore
from oddone.service.measurements import Measurements
from oddone.service.problems import ProblemError
from oddone.service.served import LoadedDetector, ServedDetectors
from oddone.service.settings import ServiceSettings
from oddone.service.uploads import LinkedPicture, UploadedPicture
from oddone.wording import legible

if TYPE_CHECKING:
    from oddone.service.fetching import PictureFetcher

NEIGHBOURS = 6
Result = TypeVar("Result")

DrawExplanation = Callable[[Detector, UInt8[np.ndarray, "3 size size"], Explanation, str], bytes]
"""From a detector, an image, its explanation and a title to a PNG."""


class Service:
    """The detectors, the processes that decode, the feedback, and what is counted of them."""

    def __init__(
        self,
        paths: Mapping[str, Path],
        settings: ServiceSettings,
        *,
        feedback: Path | None = None,
        draw: DrawExplanation | None = None,
        fetcher: "PictureFetcher | None" = None,
        sha256: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        self.settings = settings
        self.draw = draw
        self.fetcher = fetcher
        self.feedback = None if feedback is None else FeedbackStore(feedback)
        self.detectors = ServedDetectors(paths, settings, sha256)
        self.admission = Admission(settings)
        self.decoders = DecoderPool(settings)
        self.measurements = Measurements(self.admission, self.decoders, self.detectors)
        self._watching: asyncio.Task[None] | None = None
        self._reloads: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to look for new files."""
        self._watching = asyncio.create_task(self.detectors.watch())

    def reload_soon(self) -> None:
        """Load all files anew, as SIGHUP asks for."""
        reload = asyncio.get_running_loop().create_task(self.detectors.reload())
        self._reloads.add(reload)
        reload.add_done_callback(self._reloads.discard)

    async def stop(self) -> None:
        """End what was begun; no request is there any more."""
        try:
            if self._watching is not None:
                self._watching.cancel()
                with suppress(asyncio.CancelledError):
                    await self._watching
            await asyncio.gather(*self._reloads)
        finally:
            self.close()

    def close(self) -> None:
        """End all threads and processes, and let go of the detectors."""
        with ExitStack() as closing:  # each, also where another one fails
            if self.feedback is not None:
                closing.callback(self.feedback.close)
            closing.callback(self.detectors.close)
            closing.callback(self.decoders.close)

    async def fetch(
        self, sent: Sequence[UploadedPicture | LinkedPicture], admitted: AdmittedRequest
    ) -> list[UploadedPicture]:
        """Return the pictures of a request, with those that it names by URL."""
        pictures = [picture for picture in sent if isinstance(picture, UploadedPicture)]
        if len(pictures) == len(sent):
            return pictures
        if self.fetcher is None:
            detail = "this service fetches no pictures by URL; send the file itself"
            raise ProblemError(422, "no-urls", detail)
        return await self.fetcher.fetch(sent, admitted)

    async def score(
        self, loaded: LoadedDetector, pictures: Sequence[UploadedPicture]
    ) -> list[dict[str, Any]]:
        """Return the `ImageAnswer` on each picture."""
        return await self._in_time(
            asyncio.gather(*(self._score(loaded, picture) for picture in pictures))
        )

    async def _score(self, loaded: LoadedDetector, picture: UploadedPicture) -> dict[str, Any]:
        sha256 = None
        decoded: UInt8[np.ndarray, "3 size size"] | str
        if picture.reason is not None:
            decoded = picture.reason
        else:
            sha256 = hashlib.sha256(picture.content).hexdigest()
            decoded = await self.decoders.decode(picture.content, loaded.detector.image_size)
        if isinstance(decoded, str):
            scored = ScoredImage(picture.name, None, None, decoded)
        else:
            scored = await loaded.batches.submit(StreamedImage(picture.name, decoded, None))
        if sha256 is not None:
            loaded.remember(sha256, scored)
        self.measurements.count_image(loaded.name, scored)
        return image_answer(picture.name, sha256, scored, loaded.detector.classes)

    async def explain(
        self, loaded: LoadedDetector, picture: UploadedPicture, *, as_png: bool
    ) -> dict[str, Any] | bytes:
        """Return the `ExplainAnswer` on a picture, or a drawing of it."""
        if picture.reason is not None:
            raise ProblemError(422, "not-fetched", f"{picture.name}: {picture.reason}")
        decoded = await self._in_time(
            self.decoders.decode(picture.content, loaded.detector.image_size)
        )
        if isinstance(decoded, str):
            detail = f"{picture.name} cannot be read as a picture: {decoded}"
            raise ProblemError(422, "unreadable", detail)
        work: Callable[..., dict[str, Any] | bytes] = self._explain
        if as_png:
            work = self._draw_explanation
        loop = asyncio.get_running_loop()
        return await self._in_time(
            loop.run_in_executor(self.detectors.compute, work, loaded, picture, decoded)
        )

    def _explain(
        self,
        loaded: LoadedDetector,
        picture: UploadedPicture,
        image: UInt8[np.ndarray, "3 size size"],
    ) -> dict[str, Any]:
        explanation = _explained(loaded.detector, image)
        class_name = loaded.detector.classes[explanation.verdict.label]
        scored = ScoredImage(picture.name, explanation.verdict, class_name, None)
        sha256 = hashlib.sha256(picture.content).hexdigest()
        about = image_answer(picture.name, sha256, scored, loaded.detector.classes)
        return explain_answer(loaded, image, explanation, about)

    def _draw_explanation(
        self,
        loaded: LoadedDetector,
        picture: UploadedPicture,
        image: UInt8[np.ndarray, "3 size size"],
    ) -> bytes:
        assert self.draw is not None  # noqa: S101  (the app checks it first)
        explanation = _explained(loaded.detector, image)
        return self.draw(loaded.detector, image, explanation, picture.name)

    async def store_feedback(self, sent: FeedbackRequest) -> int:
        """Return the number of what a user says, once it is on the disk."""
        if self.feedback is None:
            detail = "this service stores no feedback; start it with --feedback FILE"
            raise ProblemError(404, "no-feedback", detail)
        loaded = self.detectors.find(sent.detector)
        scored = loaded.recent.get(sent.sha256)
        if scored is None or scored.verdict is None or scored.class_name is None:
            detail = "no verdict on this picture is remembered; let it be scored once more"
            raise ProblemError(404, "unknown-image", detail)
        if sent.class_name is not None and sent.class_name not in loaded.detector.classes:
            detail = f"{sent.class_name!r} is none of the {len(loaded.detector.classes)} classes"
            raise ProblemError(422, "unknown-class", detail)
        verdict = scored.verdict
        feedback = Feedback(
            detector=loaded.name,
            detector_sha256=loaded.sha256,
            scoring_digest=loaded.scoring_digest,
            image_sha256=sent.sha256,
            score=verdict.score,
            p_value=verdict.p_value,
            label=verdict.label,
            class_name=scored.class_name,
            anomalous=verdict.anomalous,
            said=sent.said,
            said_class=sent.class_name,
        )
        try:
            number = await asyncio.to_thread(self.feedback.add, feedback)
        except sqlite3.Error as error:
            detail = f"what you said is not stored: {error}; tell who runs this service"
            raise ProblemError(507, "not-stored", detail) from error
        self.measurements.feedback.labels(loaded.name, sent.said).inc()
        return number

    async def _in_time(self, work: Awaitable[Result]) -> Result:
        """Wait for some work, but not longer than a request may take."""
        seconds = self.settings.answer_seconds
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as error:
            detail = f"there was no answer after {seconds:g} s; send fewer pictures, or later"
            raise ProblemError(503, "too-slow", detail, {"Retry-After": "5"}) from error


def _explained(detector: Detector, image: UInt8[np.ndarray, "3 size size"]) -> Explanation:
    explanation = detector.explain(image[None], NEIGHBOURS)[0]
    if not math.isfinite(explanation.verdict.score):
        raise ProblemError(422, "no-number", "its score is no number; fit the detector anew")
    neighbours = tuple(near._replace(path=_file_name(near.path)) for near in explanation.neighbours)
    return explanation._replace(neighbours=neighbours)


def _file_name(path: str) -> str:
    """Return the last part of a path: where the training images lay is nobody's business."""
    return legible(path.replace("\\", "/").rpartition("/")[2])
