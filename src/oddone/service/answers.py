"""What the service answers: the schemas of its OpenAPI page, and how answers are made."""

import base64
import io
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import UInt8
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.config import JsonDict

from oddone.detector import Calibration, Detector, Explanation, ScoredImage
from oddone.detector.views import image_views
from oddone.service.drift import ALARM, DriftTest
from oddone.service.problems import ProblemError
from oddone.service.served import LoadedDetector, ServedDetector
from oddone.verdict import Verdict
from oddone.wording import describe_neighbour, describe_verdict

BINS = 40
SHOWN_PIXELS = 96  # of views and neighbours
Share = Annotated[float, Field(ge=0, le=1)]
Picture = Annotated[str, Field(description="A PNG as a data: address.")]
EXAMPLE: JsonDict = {
    "name": "photo.jpg",
    "sha256": "6dc8c1…",
    "class_name": "Sandal",
    "score": 14.2,
    "p_value": 0.004,
    "anomalous": True,
    "probabilities": {"Sandal": 0.81, "Sneaker": 0.19},
    "reason": None,
}


class ImageAnswer(BaseModel):
    """What is thought of one picture.

    With a verdict, the reason is null. Without one, all is null but name, reason and `sha256`.
    """

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})
    name: str = Field(description="The name of the file, as it was sent.")
    sha256: str | None = Field(
        description="Of the file, by which feedback names it; null if it could not be fetched."
    )
    class_name: str | None = Field(description="The class that it looks most like.")
    score: float | None = Field(description="The anomaly score: higher is more anomalous.")
    p_value: Share | None = Field(description="The share of normal images that are as odd.")
    anomalous: bool | None = Field(description="The verdict; null without a calibration.")
    probabilities: dict[str, Share] | None = Field(
        description="How likely each class is, if it is one of them at all."
    )
    reason: str | None = Field(description="Why there is no verdict; null if there is one.")


class ScoreAnswer(BaseModel):
    """The verdicts on the pictures of a request, in their order."""

    detector: str
    detector_sha256: str
    images: list[ImageAnswer]


class ViewAnswer(BaseModel):
    """One of the views that the detector was shown."""

    name: str
    distance: float = Field(description="How far it is from the nearest class.")
    picture: Picture


class NeighbourAnswer(BaseModel):
    """A training image that looks like the picture."""

    class_name: str
    file_name: str
    similarity: float = Field(description="The cosine of the embeddings.")
    distance: str = Field(description="One minus that, in words.")
    picture: Picture


class ExplainAnswer(BaseModel):
    """Why a picture got its verdict, which is that of all views."""

    detector: str
    detector_sha256: str
    image: ImageAnswer
    headline: str
    rarity: str
    because: str
    threshold: float | None
    views: list[ViewAnswer]
    neighbours: list[NeighbourAnswer]


class HistogramAnswer(BaseModel):
    """How many calibration images have which score, in bins of the same width."""

    low: float
    high: float
    counts: list[int]


class CalibrationAnswer(BaseModel):
    """Where normal ends."""

    images: int
    false_alarms: float
    threshold: float
    thresholds: dict[str, float] = Field(description="Of each class; the same unless per class.")
    scores: HistogramAnswer


class DriftAnswer(BaseModel):
    """Whether the stream of images still looks like the calibration images."""

    images: int = Field(description="Pictures seen since the detector was loaded.")
    log10_martingale: float
    alarm_at: float = Field(description="The logarithm at which the alarm is raised.")
    alarm: bool


class DetectorAnswer(BaseModel):
    """One of the detectors of the service."""

    name: str
    sha256: str
    loaded: str
    refused: str | None = Field(
        description="When the newest file was refused, so that the one before is still used."
    )
    classes: list[str]
    image_size: int
    views: int
    calibration: CalibrationAnswer | None
    drift: DriftAnswer | None


class LimitsAnswer(BaseModel):
    """What a request may have."""

    file_bytes: int
    request_bytes: int
    files: int
    pixels: int


class ModelAnswer(BaseModel):
    """All that is served; the first detector is meant where none is named."""

    version: str
    feedback: bool = Field(description="Whether feedback is stored.")
    limits: LimitsAnswer
    detectors: list[DetectorAnswer]


class FeedbackRequest(BaseModel):
    """What a user says of a verdict that this service gave."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"sha256": "0" * 64, "said": "normal", "detector": None, "class_name": None}
        },
    )
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    said: Literal["normal", "anomalous"]
    detector: Annotated[str, Field(max_length=200)] | None = None
    class_name: Annotated[str, Field(max_length=200)] | None = None


class FeedbackAnswer(BaseModel):
    """The number under which it is stored, on the disk."""

    number: int


class HealthAnswer(BaseModel):
    """That the service works."""

    status: Literal["ok"]


class ProblemAnswer(BaseModel):
    """RFC 9457: what is wrong with a request, and what to change."""

    type: str
    title: str
    status: int
    detail: str


def parse_feedback(body: bytes) -> FeedbackRequest:
    """Return what a user sent, strictly as it is described."""
    try:
        return FeedbackRequest.model_validate_json(body, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise ProblemError(422, "invalid", f"{where}: {first['msg']}"[:300]) from error


def image_answer(
    name: str, sha256: str | None, scored: ScoredImage, classes: tuple[str, ...]
) -> dict[str, Any]:
    """Return the `ImageAnswer` on a picture."""
    verdict = scored.verdict
    if verdict is None:
        nothing = dict.fromkeys(("class_name", "score", "p_value", "anomalous", "probabilities"))
        return {"name": name, "sha256": sha256, **nothing, "reason": scored.reason}
    likely = verdict.probabilities
    return {
        "name": name,
        "sha256": sha256,
        "class_name": classes[verdict.label],
        "score": verdict.score,
        "p_value": verdict.p_value,
        "anomalous": verdict.anomalous,
        "probabilities": None
        if likely is None
        else dict(zip(classes, likely.clamp(0, 1).tolist(), strict=True)),
        "reason": None,
    }


def explain_answer(
    loaded: LoadedDetector,
    image: UInt8[np.ndarray, "3 height width"],
    explanation: Explanation,
    about: dict[str, Any],
) -> dict[str, Any]:
    """Return the `ExplainAnswer` on a picture that the detector was shown as this image."""
    detector, verdict = loaded.detector, explanation.verdict
    words = describe_verdict(detector, verdict)
    return {
        "detector": loaded.name,
        "detector_sha256": loaded.sha256,
        "image": about,
        "headline": f"{words.beginning} {words.headline}",
        "rarity": words.rarity,
        "because": words.reason,
        "threshold": _threshold(detector, verdict),
        "views": [
            {"name": view.name, "distance": view.distance, "picture": _as_png(view.picture)}
            for view in image_views(detector, image, explanation)
        ],
        "neighbours": [
            {
                "class_name": detector.classes[near.label],
                "file_name": near.path,
                "similarity": near.similarity,
                "distance": describe_neighbour(near.similarity),
                "picture": _as_png(near.thumbnail),
            }
            for near in explanation.neighbours
        ],
    }


def detector_answer(served: ServedDetector) -> dict[str, Any]:
    """Return the `DetectorAnswer` on a detector."""
    loaded = served.loaded
    detector, calibration = loaded.detector, loaded.detector.calibration
    return {
        "name": loaded.name,
        "sha256": loaded.sha256,
        "loaded": loaded.loaded,
        "refused": served.refused,
        "classes": detector.classes,
        "image_size": detector.image_size,
        "views": len(detector.embedder.views),
        "calibration": None if calibration is None else _calibration(detector, calibration),
        "drift": None if loaded.drift is None else _drift(loaded.drift),
    }


def _calibration(detector: Detector, calibration: Calibration) -> dict[str, Any]:
    counts, edges = np.histogram(calibration.scores.numpy(), BINS)
    thresholds = detector.thresholds or ()
    return {
        "images": len(calibration.scores),
        "false_alarms": calibration.false_alarms,
        "threshold": calibration.threshold,
        "thresholds": dict(zip(detector.classes, thresholds, strict=True)),
        "scores": {"low": edges[0].item(), "high": edges[-1].item(), "counts": counts.tolist()},
    }


def _drift(drift: DriftTest) -> dict[str, Any]:
    return {
        "images": drift.images,
        "log10_martingale": drift.log_capital / np.log(10).item(),
        "alarm_at": np.log10(ALARM).item(),
        "alarm": drift.alarm,
    }


def _threshold(detector: Detector, verdict: Verdict) -> float | None:
    calibration = detector.calibration
    return None if calibration is None else calibration.for_class(verdict.label).threshold


def _as_png(picture: UInt8[np.ndarray, "height width 3"]) -> str:
    image = Image.fromarray(np.ascontiguousarray(picture))
    image.thumbnail((SHOWN_PIXELS, SHOWN_PIXELS))
    file = io.BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
