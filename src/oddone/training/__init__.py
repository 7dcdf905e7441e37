"""From a labelled source to a trained encoder."""

from oddone.training.encoder_file import TrainedNetwork, load_network
from oddone.training.held_out import Split, split
from oddone.training.loop import Outcome, Report, train
from oddone.training.run_directory import RunDirectory
from oddone.training.settings import BatchSettings, ModelSettings, OptimiserSettings, TrainSettings

__all__ = [
    "BatchSettings",
    "ModelSettings",
    "OptimiserSettings",
    "Outcome",
    "Report",
    "RunDirectory",
    "Split",
    "TrainSettings",
    "TrainedNetwork",
    "load_network",
    "split",
    "train",
]
