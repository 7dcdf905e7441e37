"""Detectors to export, and how a file is compared with the one that it was made from."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from oddone.data import ImageSet
from oddone.detector import Calibration, Detector, DetectorSettings
from oddone.encoders import TrainedNetwork
from oddone.training.initialise import initial_network
from oddone.verdicts import Verdicts
from runs import tiny_settings, tiny_source


class OwnEncoder(nn.Module):
    """An encoder of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layers = nn.Sequential(
                nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 12, 3, 2), nn.ReLU()
            )

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).flatten(2).mean(dim=2)


def untrained(source: ImageSet, **changes: object) -> TrainedNetwork:
    """Return a network that has learned nothing, by these settings of training."""
    settings = tiny_settings(**changes)
    network = initial_network(source, settings).eval()
    return TrainedNetwork(
        network, settings.model, settings.rotations, source.classes, 16, source.fingerprint
    )


def calibrated(
    trained: TrainedNetwork | nn.Module,
    settings: DetectorSettings | None = None,
    *,
    per_class: bool = False,
    size: int = 16,
) -> Detector:
    """Return a detector that calls a fifth of what it was shown anomalous."""
    source = tiny_source(images=90, size=size)
    detector = Detector.fit(trained, source, settings)
    verdicts = detector(source.images)
    order = verdicts.scores.argsort()
    labels = verdicts.labels[order] if per_class else None
    calibration = Calibration(verdicts.scores[order].double(), 0.2, labels)
    return replace(detector, calibration=calibration)


def new_images(size: int = 16, number: int = 24) -> np.ndarray:
    """Return images, [images height width 3]: some like those of `tiny_source`, some only noise."""
    known = tiny_source(images=number, size=size, seed=7).images.transpose(0, 2, 3, 1)
    noise = np.random.default_rng(1).integers(0, 256, known.shape)
    return np.where(np.arange(number)[:, None, None, None] % 3 == 0, noise, known).astype(np.uint8)


def check_same(outputs: dict[str, object], wanted: Verdicts) -> None:
    """Check that outputs are the verdicts: scores to 1e-4, labels and decisions exactly."""
    found = {name: torch.as_tensor(values) for name, values in outputs.items()}
    torch.testing.assert_close(found["score"], wanted.scores, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found["probabilities"], wanted.probabilities, rtol=1e-3, atol=1e-4)
    assert found["label"].tolist() == wanted.labels.tolist()
    assert wanted.anomalous is not None
    assert found["anomalous"].tolist() == wanted.anomalous.tolist()
    assert found["p_value"].tolist() == wanted.p_values.tolist()
