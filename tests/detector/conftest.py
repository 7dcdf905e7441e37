"""A small network and the detector on it, trained once for all tests of detectors."""

import warnings

import pytest
from detectors import FITTED, HELD_OUT

from oddone.data import ImageSet
from oddone.detector import Detector
from oddone.encoders import TrainedNetwork, load_network
from oddone.errors import DataWarning, SettingsWarning
from oddone.training import RunDirectory, train_network
from runs import tiny_settings, tiny_source


@pytest.fixture(scope="session")
def source() -> ImageSet:
    """Return 96 images of 16 x 16 pixels, of 3 classes in turn."""
    return tiny_source(images=96)


@pytest.fixture(scope="session")
def run(source: ImageSet, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Return a finished run of six steps."""
    settings = tiny_settings()
    run = RunDirectory.create(tmp_path_factory.mktemp("tiny") / "run", settings, {"seed": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SettingsWarning)
        train_network(source, settings, run)
    return run


@pytest.fixture(scope="session")
def trained(run: RunDirectory) -> TrainedNetwork:
    return load_network(run.encoder_path)


@pytest.fixture(scope="session")
def detector(trained: TrainedNetwork, source: ImageSet) -> Detector:
    """Return a detector that was fitted on the first 60 images and calibrated on the rest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return Detector.fit(trained, source, indices=FITTED).calibrate(
            source, false_alarms=0.1, indices=HELD_OUT
        )
