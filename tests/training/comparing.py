"""Runs in tests: begun, interrupted, and compared."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from oddone.data import ImageSet
from oddone.encoders import TrainedNetwork
from oddone.training import RunDirectory, StepReport, TrainSettings, train_network


def begun(path: Path, settings: TrainSettings) -> RunDirectory:
    """Return the directory of a run that has yet to train."""
    return RunDirectory.create(path, settings, {"command": "test"})


def losses(run: RunDirectory) -> list[tuple[int, float]]:
    """Return the loss of every step."""
    return [(line["step"], line["loss"]) for line in run.history()]


def assert_same_weights(one: RunDirectory, other: RunDirectory) -> None:
    """Fail unless two finished runs have come to the same weights, bit for bit."""
    ours, theirs = load_file(one.encoder_path), load_file(other.encoder_path)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def train_until(
    steps: int,
    source: ImageSet,
    run: RunDirectory,
    *,
    encoder: nn.Module | None = None,
    start: TrainedNetwork | None = None,
    outliers: ImageSet | None = None,
) -> None:
    """Train a run until it is stopped, unfinished, after so many steps."""
    seen: list[StepReport] = []
    outcome = train_network(
        source,
        run.settings,
        run,
        encoder=encoder,
        start=start,
        outliers=outliers,
        watch=seen.append,
        stop=lambda: len(seen) == steps,
    )
    assert outcome == (False, True, steps, outcome.seconds)
    assert not run.encoder_path.exists()
