"""A checkpoint holds the whole state of training, as tensors and JSON, without pickle.

The sampler and every random stream follow from the seed and the step (`oddone.rng`), and the
learning rate from the step or the time trained; so weights, batch-norm statistics, what the
optimiser keeps for each weight, and those two numbers are all there is to keep.
"""

import math
import reprlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from oddone.encoders.network_file import impossible_numbers, mismatched_weights
from oddone.errors import ArtifactError, DataError, DataWarning
from oddone.tensor_file import NOT_FINITE, TensorFile, write_tensors

KIND = "checkpoint"
FORMAT = 1
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


@dataclass(frozen=True)
class _CheckpointHeader:
    """What a checkpoint must say beside its tensors."""

    progress: TrainProgress


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
    about = {"kind": KIND, "format": FORMAT, "progress": vars(progress)}
    write_tensors(path, tensors, about)
    for old in sorted(folder.glob("*.safetensors"))[:-KEPT]:
        old.unlink()
    return path


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the last checkpoint written, if there is one."""
    return max(folder.glob("*.safetensors"), default=None)


def read_progress(folder: Path) -> TrainProgress:
    """Return how far a run has come by its newest checkpoint that is good."""
    found = _newest_good(folder)
    return TrainProgress() if found is None else _progress(found.file)


@torch.no_grad()
def load_newest_checkpoint(
    folder: Path, network: nn.Module, optimiser: torch.optim.Optimizer
) -> TrainProgress:
    """Put the state of the newest good checkpoint into the network and the optimiser.

    Return how far it is: not at all without a checkpoint. One that is not good is said and put
    aside.
    """
    found = _newest_good(folder, network)
    if found is None:
        return TrainProgress()
    file = found.file
    for error, path in found.bad:
        warnings.warn(f"{error}; going on from {file.path.name}", DataWarning, stacklevel=2)
        path.replace(path.with_name(f"{path.name}.damaged"))
    network.load_state_dict(file.below("network."))
    for kind in OPTIMISER_STATE:
        numbers = file.below(f"{kind}.")
        for name, parameter in network.named_parameters():
            if name in numbers:
                optimiser.state[parameter][kind] = _laid_out_like(parameter, numbers[name])
    return _progress(file)


class _OtherNetworkError(ArtifactError):
    """A checkpoint is whole, and its weights are those of another network."""


class _GoodCheckpoint(NamedTuple):
    """A checkpoint that is good, and those after it that are not."""

    file: TensorFile
    bad: list[tuple[ArtifactError, Path]]


def _newest_good(folder: Path, network: nn.Module | None = None) -> _GoodCheckpoint | None:
    """Return the newest checkpoint that is whole and fits the network, if there is any."""
    bad: list[tuple[ArtifactError, Path]] = []
    for path in sorted(folder.glob("*.safetensors"), reverse=True):
        try:
            file = _read(path)
            if network is not None:
                _check_fits(file, network)
        except ArtifactError as error:
            bad.append((error, path))
        else:
            return _GoodCheckpoint(file, bad)
    if bad:
        newest, _ = bad[0]
        if isinstance(newest, _OtherNetworkError):
            raise DataError(f"{newest}; pass the encoder that the run began with") from newest
        raise DataError(
            f"none of {len(bad)} checkpoints in {folder} is good ({newest}); train anew"
        )
    return None


def _read(path: Path) -> TensorFile:
    """Return the checkpoint in a file, or raise an ArtifactError where it is not whole."""
    file = TensorFile.read(path)
    if file.kind_and_format() != (KIND, FORMAT):
        raise ArtifactError(f"{path} is no checkpoint that this version of oddone can read")
    file.check_digest()
    _progress(file)
    return file


def _progress(file: TensorFile) -> TrainProgress:
    progress = file.header_as(_CheckpointHeader).progress
    for name, number in vars(progress).items():
        least = 0 if name != "loss_scale" else math.ulp(0.0)
        if not least <= number < math.inf:
            raise file.inconsistent(f"{name} is {number}")
    return progress


def _check_fits(file: TensorFile, network: nn.Module) -> None:
    """Raise an ArtifactError unless all that is in a checkpoint belongs to this network."""
    wrong = mismatched_weights(network.state_dict(), file.below("network."))
    if wrong:
        raise _OtherNetworkError(
            f"{file.path} is of another network ({len(wrong)} weights differ, such as "
            f"{reprlib.repr(wrong[0])})"
        )
    for fault in impossible_numbers(network, file.below("network.")):
        raise file.inconsistent(f"network.{fault}")
    parameters = dict(network.named_parameters())
    for name, tensor in file.tensors.items():
        kind, _, weight = name.partition(".")
        if kind == "network":
            continue
        if weight not in parameters or kind not in OPTIMISER_STATE:
            raise file.inconsistent(f"{name} is of no weight")
        shape = [] if kind == "step" else list(parameters[weight].shape)
        if list(tensor.shape) != shape:
            raise file.inconsistent(f"{name} has the shape {list(tensor.shape)}, not {shape}")
        if not tensor.isfinite().all():
            raise file.inconsistent(f"{name} {NOT_FINITE}")


def _laid_out_like(parameter: Tensor, numbers: Tensor) -> Tensor:
    """Return numbers laid out in memory like the weights they are for, or a count as it is.

    A fused optimiser takes that for granted.
    """
    if numbers.shape != parameter.shape:
        return numbers.to(parameter.device)
    return torch.empty_like(parameter).copy_(numbers)
