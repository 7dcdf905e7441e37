"""What several processes do as one, and one process does alone: the same, to be compared."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from oddone import distributed
from oddone.detector.fitting import PosedEmbeddings, fit_statistics
from oddone.encoders import TrainedNetwork
from oddone.scoring import ImageBatch
from oddone.training import RunDirectory, TrainSettings, train_network
from oddone.training.batches import Batches, ExposedBatches
from oddone.training.initialise import initial_network
from oddone.training.loop import _StepRunner, _Trainer
from oddone.training.shared_batch_norm import share_batch_norm
from runs import tiny_settings, tiny_source

SIZES = (2, 3)
"""How many processes are in a group."""
DTYPES = {"float64": torch.float64, "float32": torch.float32}
WHOLE = {"parts": 1, "images": 11}  # rows that neither two nor three processes can share evenly


@dataclass(frozen=True)
class Case:
    """A way to train, by what differs from the small settings of other tests."""

    changes: dict[str, object] = field(default_factory=dict)
    batch: dict[str, object] = field(default_factory=lambda: dict(WHOLE))
    outliers: bool = False

    @property
    def settings(self) -> TrainSettings:
        settings = tiny_settings(**self.changes)
        return replace(settings, batch=replace(settings.batch, **self.batch))  # type: ignore[arg-type]


CASES = {
    "mcl": Case(),
    "mcl, all poses": Case(batch={**WHOLE, "poses_per_image": 4}),
    "mcl with a classifier": Case({"class_weight": 1.0}),
    "supclr": Case({"objective": "supclr"}),
    "simclr": Case({"objective": "simclr", "rotations": "none"}),
    "cross-entropy": Case({"objective": "cross-entropy"}),
    "joint": Case({"objective": "joint"}),
    "outliers": Case({"objective": "cross-entropy", "rotations": "none"}, outliers=True),
    "parts": Case(batch={"parts": 4, "images": 11}),
    "chunks": Case({"class_weight": 1.0}, {"parts": 1, "images": 11, "chunk": 6}),
}


def run_settings() -> TrainSettings:
    """Return the settings of a run that one process begins and several go on with."""
    settings = tiny_settings(steps=4)
    return replace(settings, batch=replace(settings.batch, parts=1))


def step_of(case: Case, folder: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the loss, the gradients and the running statistics of one step."""
    source, settings = tiny_source(), case.settings
    run = RunDirectory.create(folder, settings, {"command": "test"})
    batches: Batches | ExposedBatches = Batches(source, settings)
    if case.outliers:
        batches = ExposedBatches.build(source, tiny_source(seed=5), settings)
    network = initial_network(source, settings)
    network.to(dtype)
    network.register_forward_pre_hook(lambda _, images: (images[0].to(dtype),))
    trainer = _Trainer.resume(network, batches, settings, run)
    trainer.network.train()
    with trainer._worker_threads() as workers:
        report = _StepRunner(trainer, workers).next()
    found = {"loss": torch.tensor(report.loss, dtype=torch.float64)}
    for name, weight in network.named_parameters():
        if weight.grad is not None:
            found[f"gradient of {name}"] = weight.grad
    for name, numbers in network.named_buffers():
        found[f"statistics {name}"] = numbers
    return found


def normalise() -> dict[str, Tensor]:
    """Return what several kinds of batch norm make of rows, and their gradients, in float64."""
    found = {}
    for name, norm, shape in (
        ("plain", nn.BatchNorm2d(3), (7, 3, 4, 5)),
        ("1d, cumulative", nn.BatchNorm1d(3, momentum=None), (5, 3)),
        ("without weights", nn.BatchNorm2d(3, affine=False), (5, 3, 2, 2)),
        ("without statistics", nn.BatchNorm1d(3, track_running_stats=False), (6, 3, 2)),
    ):
        network = nn.Sequential(norm).double()
        share_batch_norm(network)
        generator = torch.Generator().manual_seed(1)
        rows = torch.randn(shape, generator=generator, dtype=torch.float64) * 3 + 10
        goals = torch.randn(shape, generator=generator, dtype=torch.float64)
        own = rows[distributed.own_part(len(rows))].requires_grad_()
        for _ in range(2):
            outputs = distributed.gather_rows(network(own))
        (outputs * goals).square().sum().backward()
        distributed.average([weight.grad for weight in network.parameters()])
        found[f"{name}: outputs"] = outputs.detach()
        assert own.grad is not None
        found[f"{name}: gradient"] = distributed.gather_rows(own.grad / distributed.count())
        for key, numbers in network.state_dict().items():
            found[f"{name}: {key}"] = numbers.double()
        for key, weight in network.named_parameters():
            found[f"{name}: gradient of {key}"] = weight.grad
        network.eval()
        found[f"{name}: in evaluation"] = distributed.gather_rows(network(own)).detach()
    return {key: numbers.contiguous() for key, numbers in found.items()}


def fit() -> dict[str, Tensor]:
    """Return moments and samples of embeddings that are the same in a batch of any size."""
    source, settings = tiny_source(), tiny_settings()
    network = TrainedNetwork(
        initial_network(source, settings), settings.model, "task", source.classes, 16, "none"
    )

    def embed(images: ImageBatch) -> dict[str, PosedEmbeddings]:
        rows = images[:, :, ::4, ::4].flatten(1).double() / 7 + 1000
        return {"pixels": PosedEmbeddings(torch.stack([rows, rows.sqrt()]), [0, 1])}

    indices, places = torch.arange(3, 47).numpy(), torch.arange(0, 44, 3).numpy()
    fitted = fit_statistics(
        embed, network, source, indices, moments_of=["pixels"], samples_of={"pixels": places}
    )
    moments = fitted.moments["pixels"]
    return {
        "count": moments.count,
        "mean": moments.mean,
        "scatter": moments.scatter,
        "samples": fitted.samples["pixels"].contiguous(),
    }


def go_on(folder: Path) -> None:
    """Train a run to its end, from where it is."""
    run = RunDirectory.open(folder)
    train_network(tiny_source(), run.settings, run)
