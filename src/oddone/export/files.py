"""From a detector to the content of a file, which is tried before anybody gets it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from oddone.data import ImageSet
from oddone.detector import Calibration, Detector
from oddone.errors import SettingsError
from oddone.export.comparison import OnnxScorer
from oddone.export.int8 import quantise
from oddone.export.onnx_detector import OnnxDetector
from oddone.export.onnx_file import set_facts, to_bytes
from oddone.export.onnx_model import (
    OnnxModel,
    facts_of,
    program_bytes,
    set_calibration,
    to_onnx,
    to_program,
)
from oddone.progress import Progress
from oddone.scoring import score_images

TOLERANCE = 1e-3
"""How far the score of a file may be off, relative to the detector's: rounding is far below."""


def onnx_content(
    detector: Detector, *, fixed_size: bool = False, detector_sha256: str | None = None
) -> bytes:
    """Return the content of an ONNX file that scores as the detector does by all of its views.

    Parameters
    ----------
    detector
        What is exported. One that is not calibrated has no p-values and calls nothing anomalous.
    fixed_size
        Whether the graph takes images of the encoder's size only; otherwise of any, and resizes.
    detector_sha256
        The SHA-256 of the detector's own file, for the metadata.

    """
    exported = _exported(detector, fixed_size=fixed_size)
    facts = facts_of(detector, fixed_size=fixed_size, detector_sha256=detector_sha256)
    set_facts(exported.model, facts)
    content = to_bytes(exported.model)
    opened = OnnxDetector.of(Path("the graph"), content)
    _try(detector, opened.run, fixed_size=fixed_size)
    return content


def int8_content(
    detector: Detector,
    images: ImageSet,
    *,
    fixed_size: bool = False,
    detector_sha256: str | None = None,
    progress: Progress | None = None,
) -> bytes:
    """Return the content of an ONNX file whose network computes in int8.

    Its scores are others. So its threshold is set anew, by its own scores of the images.

    Parameters
    ----------
    detector
        What is exported.
    images
        Normal images that were not trained on.
    fixed_size
        Whether the graph takes images of the encoder's size only.
    detector_sha256
        The SHA-256 of the detector's own file, for the metadata.
    progress
        Called with how many images are done.

    """
    model = quantise(_exported(detector, fixed_size=fixed_size), images)

    def content(of: Detector) -> bytes:
        facts = facts_of(of, fixed_size=fixed_size, int8=True, detector_sha256=detector_sha256)
        set_facts(model, facts)
        return to_bytes(model)

    before = detector.calibration
    if before is None:
        return content(detector)
    quantised = OnnxScorer(OnnxDetector.of(Path("the graph"), content(detector)))
    found = score_images(quantised, images, progress=progress, description="calibrating")
    labels = None if before.labels is None else found.labels
    calibration = Calibration.of(found.scores, before.false_alarms, labels)
    set_calibration(model, calibration, len(detector.classes))
    return content(replace(detector, calibration=calibration))


def pt2_content(
    detector: Detector, *, fixed_size: bool = False, detector_sha256: str | None = None
) -> bytes:
    """Return the content of a file that `torch.export.load` reads; see `onnx_content`."""
    program = to_program(detector, fixed_size=fixed_size)
    module = program.module()

    def run(images: np.ndarray) -> Mapping[str, Tensor]:
        outputs: Mapping[str, Tensor] = module(torch.from_numpy(images))
        return outputs

    _try(detector, run, fixed_size=fixed_size)
    facts = facts_of(detector, fixed_size=fixed_size, detector_sha256=detector_sha256)
    return program_bytes(program, facts)


def _exported(detector: Detector, *, fixed_size: bool) -> OnnxModel:
    return to_onnx(to_program(detector, fixed_size=fixed_size), detector)


def _try(
    detector: Detector, run: Callable[[np.ndarray], Mapping[str, object]], *, fixed_size: bool
) -> None:
    """Raise a SettingsError unless the graph scores images as the detector does.

    A tracer follows the code of an encoder once. If that does one thing for some images and
    another for others, or for other numbers of them, only a trial tells.
    """
    generator = np.random.default_rng(0)
    size = detector.image_size
    whole = replace(detector, stages=())  # by all views, as the graph does
    for images, extra in ((1, 0), (4, 0 if fixed_size else 3)):
        pixels = generator.integers(0, 256, (images, size, size + extra, 3), dtype=np.uint8)
        wanted = whole(list(pixels)).scores.double().numpy()
        found = np.asarray(run(pixels)["score"], dtype=np.float64)
        if not np.allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE):
            raise SettingsError(
                f"the graph of the encoder {detector.embedder.trained.model.encoder_name} gives an "
                f"image the score {found[0]:.6g}, and the detector {wanted[0]:.6g}; make one whose "
                f"code does the same for all images"
            )
