"""From a labelled source to a trained encoder."""

from oddone.training.encoder_file import TrainedNetwork, load_network
from oddone.training.held_out import Split, split
from oddone.training.loop import Outcome, Report, train
from oddone.training.run_directory import RunDirectory
from oddone.training.settings import Batch, Model, Optimiser, Training

__all__ = [
    "Batch",
    "Model",
    "Optimiser",
    "Outcome",
    "Report",
    "RunDirectory",
    "Split",
    "TrainedNetwork",
    "Training",
    "load_network",
    "split",
    "train",
]
