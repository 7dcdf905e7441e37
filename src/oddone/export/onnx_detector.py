"""Score images by an exported file, without torch: onnxruntime does the arithmetic."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped, UInt8

from oddone.data.stream import Source
from oddone.errors import ArtifactError
from oddone.export.onnx_file import (
    DECIDED,
    INPUT,
    SCORED,
    OnnxFacts,
    onnxruntime_package,
    read_facts,
    read_model,
)
from oddone.progress import Progress
from oddone.scored_images import (
    ArrayBatch,
    DecidedImage,
    ScoredImage,
    process_arrays,
    scored_images,
)
from oddone.verdict import Verdict

KINDS = {"score": "f", "label": "i", "probabilities": "f", "p_value": "f", "anomalous": "b"}
"""NumPy's kind of each output."""


@dataclass(frozen=True, eq=False)
class OnnxDetector:
    """A detector in a file of `oddone export`. It scores as the `Detector` that it was made from.

    It has no training images to show, so nothing is explained.
    """

    path: Path
    facts: OnnxFacts
    session: Any
    """An `onnxruntime.InferenceSession`."""

    @staticmethod
    def load(
        path: Path | str, *, sha256: str | None = None, threads: int | None = None
    ) -> "OnnxDetector":
        """Return the detector in a file that `oddone export` has written.

        Parameters
        ----------
        path
            The file, whose name ends in .onnx.
        sha256
            The SHA-256 that the file must have, in hexadecimal digits, as `sha256sum` prints it.
        threads
            How many threads compute; by default one for each core.

        """
        path = Path(path)
        return OnnxDetector.of(path, read_model(path, sha256), threads)

    @staticmethod
    def of(path: Path, content: bytes, threads: int | None = None) -> "OnnxDetector":
        """Return the detector in the content of a file; errors call it by the path."""
        return OnnxDetector(path, read_facts(path, content), _session(path, content, threads))

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the labels."""
        return self.facts.classes

    @property
    def image_size(self) -> int:
        """Height and width of the images that the encoder sees."""
        return self.facts.image_size

    @property
    def batch_size(self) -> int:
        """How many images make a good batch."""
        return self.facts.batch_size

    @property
    def threshold(self) -> float | None:
        """The score above which an image is anomalous, by all classes; None: not calibrated."""
        return self.facts.threshold

    @property
    def thresholds(self) -> tuple[float, ...] | None:
        """The threshold of each predicted class; None without a calibration."""
        return self.facts.thresholds

    def run(self, images: UInt8[np.ndarray, "images height width 3"]) -> dict[str, np.ndarray]:
        """Return the outputs of the graph by name: score, label, probabilities and so on.

        Parameters
        ----------
        images
            In RGB, of any size, or of the file's where that is fixed.

        """
        names = SCORED if self.threshold is None else DECIDED
        try:
            outputs = self.session.run(names, {INPUT: images})
        except Exception as error:  # what onnxruntime raises has no base class of its own
            raise ArtifactError(
                f"{self.path} cannot be run on images of {images.shape[1]} x {images.shape[2]} "
                f"pixels ({_first_line(error)}); make it anew with oddone export"
            ) from error
        named = dict(zip(names, outputs, strict=True))
        self._check(named, len(images))
        return named

    def score(
        self,
        source: Source,
        *,
        batch_size: int | None = None,
        neighbours: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[ScoredImage]:
        """Return the verdicts on images of any number, in order, as `Detector.score` does.

        Parameters
        ----------
        source
            A folder or file of images, a notation, or several.
        batch_size
            How many images are scored at once; by default a good number.
        neighbours
            Always 0: the file has no training images.
        progress
            Called with how many images are done.

        """
        if neighbours:
            raise ArtifactError(
                f"{self.path} has no training images to show beside others; explain by the "
                f"detector that it was made from"
            )
        batches = process_arrays(
            self._decide,
            source,
            size=self.image_size,
            batch_size=self.batch_size if batch_size is None else batch_size,
            progress=progress,
        )
        return scored_images(batches, self.classes)

    def _decide(self, images: ArrayBatch) -> list[DecidedImage]:
        outputs = self.run(np.ascontiguousarray(images.transpose(0, 2, 3, 1)))
        nothing = [None] * len(images)
        return [
            DecidedImage(Verdict(*values))
            for values in zip(
                outputs["score"].tolist(),
                outputs["label"].tolist(),
                outputs["anomalous"].tolist() if "anomalous" in outputs else nothing,
                outputs["p_value"].tolist() if "p_value" in outputs else nothing,
                strict=True,
            )
        ]

    def _check(self, outputs: Mapping[str, Shaped[np.ndarray, "..."]], images: int) -> None:
        """Raise an ArtifactError unless the outputs are those of so many images."""
        for name, values in outputs.items():
            shape = (images, len(self.classes)) if name == "probabilities" else (images,)
            if values.shape != shape or values.dtype.kind != KINDS[name]:
                raise ArtifactError(
                    f"{self.path} gives {values.dtype}{list(values.shape)} as {name} of {images} "
                    f"images; make it anew with oddone export"
                )
        labels = outputs["label"]
        if ((labels < 0) | (labels >= len(self.classes))).any():
            raise ArtifactError(
                f"{self.path} gives labels that are none of its {len(self.classes)} classes; make "
                f"it anew with oddone export"
            )


def _session(path: Path, content: bytes, threads: int | None) -> Any:
    runtime = onnxruntime_package()
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    if threads is not None:
        options.intra_op_num_threads = threads
    # Threads that spin while they wait take the cores from those that decode images.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # what onnxruntime raises has no base class of its own
        raise ArtifactError(
            f"{path} cannot be used ({_first_line(error)}); make it anew with oddone export"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
