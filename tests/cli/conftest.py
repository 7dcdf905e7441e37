"""The command line, run in this process, and a small detector for it."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from oddone.cli import main
from oddone.detector import Detector
from oddone.encoders import load_network
from oddone.training import RunDirectory, train_network
from runs import tiny_settings, tiny_source

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_oddone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command line and returns its exit code and what it prints."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oddone", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        printed, complained = capsys.readouterr()
        code = caught.value.code
        assert isinstance(code, int)
        return code, printed, complained

    return run


@pytest.fixture(scope="session")
def uncalibrated(tmp_path_factory: pytest.TempPathFactory) -> Detector:
    """Return a detector for the 3 classes of `tiny_source`, of 16 x 16 pixels, barely trained."""
    source, settings = tiny_source(images=192), tiny_settings()
    run = RunDirectory.create(tmp_path_factory.mktemp("tiny") / "run", settings, {})
    train_network(source, settings, run)
    return Detector.fit(load_network(run.encoder_path), source, indices=np.arange(96))


@pytest.fixture(scope="session")
def detector_file(uncalibrated: Detector, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of that detector, calibrated to flag a tenth of the normal images."""
    path = tmp_path_factory.mktemp("calibrated") / "detector.oddone"
    source = tiny_source(images=192)
    uncalibrated.calibrate(source, false_alarms=0.1, indices=np.arange(96, 192)).save(path)
    return path


@pytest.fixture(scope="session")
def uncalibrated_file(uncalibrated: Detector, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of that detector before it was calibrated."""
    path = tmp_path_factory.mktemp("uncalibrated") / "detector.oddone"
    uncalibrated.save(path)
    return path
