"""From a labelled source to a trained network."""

from oddone.training.batches import HeldOutSplit, split_held_out
from oddone.training.loop import Outcome, StepReport, train_network
from oddone.training.run_directory import RunDirectory
from oddone.training.settings import BatchSettings, OptimiserSettings, TrainSettings

__all__ = [
    "BatchSettings",
    "HeldOutSplit",
    "OptimiserSettings",
    "Outcome",
    "RunDirectory",
    "StepReport",
    "TrainSettings",
    "split_held_out",
    "train_network",
]
