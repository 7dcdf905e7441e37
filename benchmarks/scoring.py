"""A detector against the bare network that it holds, on eight views of each image.

The bare network turns views that are ready into embeddings, a batch after the other, with all of
torch's threads; the detector also makes the views from bytes, measures distances, fuses them, and
gives labels. It scores a batch on each core, side by side (docs/decisions/0009).
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from measure import compare, print_comparisons, seconds_of, write_measurements
from oddone.api import fit_run
from oddone.data import load
from oddone.detector import Detector
from oddone.device import keep_freed_memory
from oddone.presets import smoke
from oddone.training import RunDirectory, train_network

ENCODERS = {"resnet10-w16": 512, "resnet10-w32": 512, "resnet18": 64}  # and how many images
ROUNDS = 15
NAMES = {"ours": "detector(images)", "peer": "bare forward pass of the views"}


def main() -> None:
    """Measure, print and record."""
    keep_freed_memory()
    comparisons = []
    for encoder, images in ENCODERS.items():
        compared = measure(made_with(encoder), images)
        comparisons.append({"encoder": encoder, "images": images, **compared})
        print(f"\n{encoder}: {images / compared['our_milliseconds'] * 1e3:,.0f} images/s")
        print_comparisons([compared])
    write_measurements("scoring", seed=0, packages=["numpy"], rounds=ROUNDS, speed=comparisons)


def made_with(encoder: str) -> Detector:
    """Return a detector on a network that has learned nothing."""
    source, settings = load("fashion:known", size=32), replace(smoke(), steps=1)
    model = replace(settings.model, encoder_name=encoder, head_hidden=512, head_dim=128)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory.create(Path(folder) / "run", replace(settings, model=model), {})
        train_network(source, run.settings, run)
        return fit_run(run, source)


@torch.no_grad()
def measure(detector: Detector, images: int) -> dict[str, object]:
    """Return the rate of the detector over that of its network."""
    pixels = load("fashion:known#test", size=32).images[:images]
    embedder = detector.embedder
    ready = [
        embedder.views(embedder.prepare(batch))
        .flatten(0, 1)
        .contiguous(memory_format=torch.channels_last)
        for batch in torch.from_numpy(pixels).split(embedder.batch_size)
    ]
    tasks = {
        NAMES["ours"]: lambda: detector(pixels),
        NAMES["peer"]: lambda: [embedder.trained.network(rows) for rows in ready],
    }
    return compare(seconds_of(tasks, ROUNDS), **NAMES)


if __name__ == "__main__":
    main()
