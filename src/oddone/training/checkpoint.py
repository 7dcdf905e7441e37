"""A checkpoint holds the whole state of training, as tensors and JSON, without pickle.

The sampler and every random stream follow from the seed and the step (`oddone.rng`), and the
learning rate from the step or the time trained; so weights, batch-norm statistics, what the
optimiser keeps for each weight, and those two numbers are all there is to keep.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from oddone.errors import DataError
from oddone.files import write_tensors

KEPT = 2
OPTIMISER_STATE = ("momentum_buffer", "exp_avg", "exp_avg_sq", "step")
"""What SGD, Muon or AdamW keeps for each weight."""


@dataclass(frozen=True)
class TrainProgress:
    """How far a run has come."""

    step: int = 0
    seconds: float = 0.0
    loss_scale: float = 1.0
    """Of float16 autocast; 1 without."""


def save_checkpoint(
    folder: Path, network: nn.Module, optimiser: torch.optim.Optimizer, progress: TrainProgress
) -> Path:
    """Write a checkpoint and delete all but the last two."""
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    for name, parameter in network.named_parameters():
        for kind, numbers in optimiser.state.get(parameter, {}).items():
            if numbers is not None:
                tensors[f"{kind}.{name}"] = numbers
    path = folder / f"{progress.step:09d}.safetensors"
    write_tensors(path, tensors, {"progress": vars(progress)})
    for old in sorted(folder.glob("*.safetensors"))[:-KEPT]:
        old.unlink()
    return path


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the last checkpoint written, if there is one."""
    return max(folder.glob("*.safetensors"), default=None)


def read_progress(folder: Path) -> TrainProgress:
    """Return how far a run has come by its last checkpoint."""
    newest = newest_checkpoint(folder)
    if newest is None:
        return TrainProgress()
    with _damage_explained(newest), safe_open(newest, framework="pt") as file:
        return TrainProgress(**json.loads(file.metadata()["progress"]))


@torch.no_grad()
def load_checkpoint(
    path: Path, network: nn.Module, optimiser: torch.optim.Optimizer
) -> TrainProgress:
    """Put the state of a checkpoint into the network and the optimiser; return how far it is."""
    tensors: dict[str, Tensor] = {}
    with _damage_explained(path), safe_open(path, framework="pt") as file:
        progress = TrainProgress(**json.loads(file.metadata()["progress"]))
        for name in file.keys():  # noqa: SIM118  (the file is no dictionary)
            tensors[name] = file.get_tensor(name)
    network.load_state_dict(_below("network.", tensors))
    for kind in OPTIMISER_STATE:
        numbers = _below(f"{kind}.", tensors)
        for name, parameter in network.named_parameters():
            if name in numbers:
                optimiser.state[parameter][kind] = _laid_out_like(parameter, numbers[name])
    return progress


@contextmanager
def _damage_explained(path: Path) -> Iterator[None]:
    """Turn what is raised by a file that is no checkpoint into a DataError that names it."""
    try:
        yield
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise DataError(
            f"{path} is damaged ({error}); delete it, and --resume goes on from the one before"
        ) from error


def _laid_out_like(parameter: Tensor, numbers: Tensor) -> Tensor:
    """Return numbers laid out in memory like the weights they are for, or a count as it is.

    A fused optimiser takes that for granted.
    """
    if numbers.shape != parameter.shape:
        return numbers.to(parameter.device)
    return torch.empty_like(parameter).copy_(numbers)


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
