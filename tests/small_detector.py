"""A detector that takes no time to make."""

from dataclasses import replace

from oddone.detector import Calibration, Detector, DetectorSettings
from oddone.encoders import TrainedNetwork
from oddone.training.initialise import initial_network
from oddone.transforms import ViewSet, rotations_and_mirrors
from runs import tiny_settings, tiny_source


def fitted(classes: int = 3, views: ViewSet = rotations_and_mirrors) -> Detector:
    """Return a detector on a network that has learned nothing, calibrated on what it was shown."""
    source, settings = tiny_source(images=max(60, 3 * classes), classes=classes), tiny_settings()
    network = initial_network(source, settings).eval()
    trained = TrainedNetwork(
        network, settings.model, settings.rotations, source.classes, 16, source.fingerprint
    )
    detector = Detector.fit(trained, source, DetectorSettings(views=views))
    scores = detector(source.images).scores
    return replace(detector, calibration=Calibration(scores.double().sort().values, 0.1))
