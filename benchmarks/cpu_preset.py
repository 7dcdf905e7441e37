"""Train the cpu preset on CIFAR-10 and measure the encoder with the core's functions.

    python benchmarks/cpu_preset.py RUN cifar10:FOLDER cifar100=cifar100:FOLDER#test ...

RUN is kept: run again, training goes on where it stopped. The record holds the loss curve, the
views per second, and accuracy and AUROC without SEI and with each fusion of eight views.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

import sys
from pathlib import Path

import numpy as np
import torch

import oddone
from measure import write_record
from oddone.data import ImageSet, load
from oddone.fusion import average, harmonic, nearest, view_weighted
from oddone.presets import cpu
from oddone.training import Report, RunDirectory, TrainedNetwork, load_network, train
from oddone.transforms import POSES, Views, eight_turns, four_turns

IMAGES_AT_ONCE = 256


def main(folder: str, ind: str, *oods: str) -> None:
    """Train, measure, print and record."""
    trained, history = trained_network(Path(folder), load(ind))
    test = load(f"{ind}#test")
    gaussians = fit(trained, load(ind))
    test_distances = distances(trained, gaussians, test)
    ood_distances = {
        name: distances(trained, gaussians, load(source))
        for name, source in (ood.split("=", 1) for ood in oods)
    }
    table = []
    for name, views, fuse in (
        ("one view", slice(0, 1), average),
        ("four turns, harmonic", slice(0, 4), harmonic),
        ("eight turns, average", slice(0, 8), average),
        ("eight turns, nearest", slice(0, 8), nearest),
        ("eight turns, view_weighted", slice(0, 8), view_weighted),
        ("eight turns, harmonic", slice(0, 8), harmonic),
    ):
        verdicts = oddone.decide(fuse(test_distances[views]))
        row = {"inference": name, "accuracy": oddone.accuracy(verdicts.labels, test.labels)}
        for ood, measured in ood_distances.items():
            odd = oddone.decide(fuse(measured[views]))
            row[f"auroc {ood}"] = oddone.auroc(verdicts.scores, odd.scores)
        table.append(
            {
                key: value if isinstance(value, str) else round(value, 4)
                for key, value in row.items()
            }
        )
        print("  ".join(f"{key} {value}" for key, value in table[-1].items()), flush=True)
    rows, seconds = sum(line["rows"] for line in history), history[-1]["seconds"]
    write_record(
        "cpu_preset",
        kind="quality",
        arguments=" ".join(["DIR", without_folder(ind), *map(without_folder, oods)]),
        seed=trained.settings.seed,
        packages=["numpy"],
        preset="cpu",
        minutes=round(seconds / 60, 2),
        steps=history[-1]["step"],
        views_per_second=round(rows / seconds),
        loss_curve=curve(history),
        results=table,
    )


def trained_network(
    folder: Path, source: ImageSet
) -> tuple[TrainedNetwork, list[dict[str, float]]]:
    """Return the network of the run in a folder, trained to its end, and its history."""
    exists = (folder / "settings.toml").exists()
    run = RunDirectory.open(folder) if exists else RunDirectory.create(folder, cpu(), {})

    def watch(report: Report) -> None:
        if report.step % 100 == 0:
            print(f"step {report.step} {report.share:.0%} loss {report.loss:.3f}", flush=True)

    if not run.encoder.exists():
        train(source, run.settings, run, watch=watch)
    return load_network(run.encoder), list(run.history())


def fit(trained: TrainedNetwork, source: ImageSet) -> oddone.Gaussians:
    """Return one Gaussian per (turn, class) of the un-augmented training images."""
    classes = len(source.classes)
    moments = None
    for start in range(0, len(source), IMAGES_AT_ONCE * 32):
        part = slice(start, start + IMAGES_AT_ONCE * 32)
        labels = torch.from_numpy(np.ascontiguousarray(source.labels[part]))
        embedded = embed(trained, source.images[part], eight_turns=False)
        groups = torch.arange(POSES)[:, None] * classes + labels
        batch = oddone.Moments.of(embedded.flatten(0, 1), groups.flatten(), POSES * classes)
        moments = batch if moments is None else moments + batch
    return oddone.Gaussians.fit(moments)


def distances(
    trained: TrainedNetwork, gaussians: oddone.Gaussians, source: ImageSet
) -> torch.Tensor:
    """Return the distances of eight views of every image to every class."""
    embedded = embed(trained, source.images, eight_turns=True)
    poses = eight_turns(torch.zeros(1, 3, 4, 4)).poses
    views, images = embedded.shape[:2]
    measured = gaussians.pose_distances(
        embedded.flatten(0, 1), poses.repeat_interleave(images), POSES
    )
    return measured.reshape(views, images, -1)


@torch.inference_mode()
def embed(trained: TrainedNetwork, images: np.ndarray, *, eight_turns: bool) -> torch.Tensor:
    """Return the unit embeddings of the turns of each image: [views images dim]."""
    parts = []
    for start in range(0, len(images), IMAGES_AT_ONCE):
        pixels = np.ascontiguousarray(images[start : start + IMAGES_AT_ONCE])
        views = _views(torch.from_numpy(pixels).float() / 255, eight=eight_turns)
        rows = views.images.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        embedded = torch.nn.functional.normalize(trained.network(rows).embeddings, dim=1)
        parts.append(embedded.unflatten(0, (len(views.poses), -1)))
    return torch.cat(parts, dim=1)


def _views(images: torch.Tensor, *, eight: bool) -> Views:
    return eight_turns(images) if eight else four_turns(images)


def without_folder(source: str) -> str:
    """Return a source, or NAME=SOURCE, with DIR for its folder."""
    scheme, _, place = source.partition(":")
    _, mark, split = place.partition("#")
    return f"{scheme}:DIR{mark}{split}"


def curve(history: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return the mean loss of each fiftieth of the run."""
    losses = np.array([line["loss"] for line in history])
    parts = np.array_split(np.arange(len(losses)), min(50, len(losses)))
    return [
        {"step": int(part[-1]) + 1, "loss": round(float(losses[part].mean()), 4)} for part in parts
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
