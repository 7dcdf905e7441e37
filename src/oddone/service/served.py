"""The detectors of a service: by name, each with its batches, loaded anew when its file changes."""

import asyncio
import hashlib
import logging
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch

from oddone.data.stream import ImageStream, StreamedImage
from oddone.detector import Detector, ScoredImage
from oddone.device import choose_device
from oddone.errors import OddOneError, SettingsError, did_you_mean
from oddone.files import DETECTOR_NAME, compare_sha256, file_or_in_run
from oddone.provenance import now
from oddone.service.batching import Batcher
from oddone.service.drift import DriftTest
from oddone.service.problems import ProblemError
from oddone.service.settings import ServiceSettings

MOST_RECENT = 10_000
"""Verdicts that are remembered for feedback, of each detector."""
LOG = logging.getLogger("oddone.service")
REFUSED = "detector %s: the new file is refused, the old one stays: %s"
FileStamp = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class LoadedDetector:
    """A detector as it was loaded; a request keeps the one that it began with."""

    name: str
    detector: Detector
    sha256: str
    """Of its file."""
    scoring_digest: str
    batches: Batcher[StreamedImage, ScoredImage]
    drift: DriftTest | None
    """None without a calibration."""
    loaded: str = field(default_factory=now)
    recent: OrderedDict[str, ScoredImage] = field(default_factory=OrderedDict)
    """The last verdicts by the SHA-256 of the picture."""

    def remember(self, image_sha256: str, scored: ScoredImage) -> None:
        """Keep a verdict for feedback, and let each picture count once for drift."""
        if scored.verdict is None:
            return
        if image_sha256 not in self.recent and self.drift is not None:
            self.drift.add(scored.verdict.score)
        self.recent[image_sha256] = scored
        self.recent.move_to_end(image_sha256)
        if len(self.recent) > MOST_RECENT:
            self.recent.popitem(last=False)


class ServedDetector:
    """A name, a file, and what was loaded from it last."""

    def __init__(self, path: Path, loaded: LoadedDetector, stamp: FileStamp) -> None:
        self.path = path
        self.loaded = loaded
        self.stamp = stamp
        self.reloads = Counter[str]()
        """How often a new file was taken, and how often refused."""
        self.refused: str | None = None
        """When the newest file was refused, if it was; the log says why."""

    def refuse(self) -> None:
        """Note that the newest file was refused."""
        self.refused = now()
        self.reloads["refused"] += 1


class ServedDetectors:
    """All detectors of a service; the first is the one that is meant without a name.

    One with a SHA-256 by its name is loaded from a file that has it, and never from another.
    """

    def __init__(
        self,
        paths: Mapping[str, Path],
        settings: ServiceSettings,
        sha256: Mapping[str, str | None],
    ) -> None:
        if not paths:
            raise SettingsError("a service needs a detector; name a run or a file")
        self._settings = settings
        self._sha256 = sha256
        self.compute = ThreadPoolExecutor(1, "detector")  # torch has threads of its own
        self._reloading = asyncio.Lock()
        self.by_name = {name: self._first(name, path) for name, path in paths.items()}

    def find(self, name: str | None) -> LoadedDetector:
        """Return the detector of that name, as it is now."""
        if name is None:
            return next(iter(self.by_name.values())).loaded
        if name not in self.by_name:
            hint = did_you_mean(name, self.by_name, otherwise=f"choose {', '.join(self.by_name)}")
            raise ProblemError(
                404, "unknown-detector", f"detector {name[:100]!r} is not here; {hint}"
            )
        return self.by_name[name].loaded

    def close(self) -> None:
        """End the thread that computes, and let go of the detectors.

        An app and its parts refer to each other in circles, so Python frees them at some later
        time: the detectors, which are large, do not wait for it.
        """
        self.compute.shutdown()
        self.by_name.clear()

    async def watch(self) -> None:
        """Load what has changed, for ever."""
        while True:
            await asyncio.sleep(self._settings.watch_seconds)
            await self.reload(only_changed=True)

    async def reload(self, *, only_changed: bool = False) -> None:
        """Load the files anew. One that is not good is told in the log, and the old one stays."""
        async with self._reloading:
            for name, served in self.by_name.items():
                stamp = await asyncio.to_thread(_stamp_or_none, served.path)
                if only_changed and stamp in (None, served.stamp):
                    continue
                await asyncio.to_thread(self._replace, name, served, stamp)

    def _replace(self, name: str, served: ServedDetector, stamp: FileStamp | None) -> None:
        try:
            loaded = self._load(name, served.path)
        except (OddOneError, OSError) as error:
            served.refuse()
            LOG.error(REFUSED, name, error)  # noqa: TRY400
        except Exception as error:  # whatever it is, the watch must go on
            served.refuse()
            LOG.exception(REFUSED, name, error)  # noqa: TRY401
        else:
            if loaded.sha256 != served.loaded.sha256:
                served.loaded = loaded
                served.reloads["taken"] += 1
                LOG.info("detector %s: now %s", name, loaded.sha256)
            served.refused = None
        served.stamp = stamp or served.stamp

    def _first(self, name: str, path: Path) -> ServedDetector:
        stamp = _stamp(path)
        return ServedDetector(path, self._load(name, path), stamp)

    def _load(self, name: str, path: Path) -> LoadedDetector:
        with _file(path).open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        pinned = self._sha256.get(name)
        if pinned is not None:
            compare_sha256(_file(path), sha256, pinned)
        detector = Detector.load(path, sha256=sha256).to(choose_device())
        size = detector.image_size
        detector(torch.zeros(1, 3, size, size, dtype=torch.uint8))  # the first call is slow

        def score(images: Sequence[StreamedImage]) -> list[ScoredImage]:
            stream = ImageStream((image for image in images), size, Counter())
            return list(detector.score(stream))

        calibration = detector.calibration
        return LoadedDetector(
            name,
            detector,
            sha256,
            detector.scoring_digest(),
            Batcher(
                score,
                self.compute,
                most=detector.batch_size,
                wait_seconds=self._settings.batch_milliseconds / 1e3,
            ),
            None if calibration is None else DriftTest(calibration.scores.tolist()),
        )


def _file(path: Path) -> Path:
    return file_or_in_run(path, DETECTOR_NAME)


def _stamp(path: Path) -> FileStamp:
    status = _file(path).stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _stamp_or_none(path: Path) -> FileStamp | None:
    """Return what changes with a file; None where there is none, as while it is replaced."""
    try:
        return _stamp(path)
    except (OddOneError, OSError):
        return None
