"""Speed of the augmentation against Kornia's batched equivalents.

Both mirror, crop, jitter and grey with the same settings, each row with its own parameters. Kornia
jitters all rows of a batch in one order, ours each row in its own. Kornia's transforms run in a
plain nn.Sequential and in its own AugmentationSequential.
"""

from collections.abc import Callable

import torch
from kornia import augmentation as kornia
from torch import nn

from measure import (
    compare,
    print_comparisons,
    print_profile,
    profile_of,
    seconds_of,
    write_measurements,
)
from oddone.transforms import AugmentSettings, augment

SEED = 0
SIZE, ROWS, ROUNDS = 32, (512, 2048), 31

PLAIN_NAME = "Kornia in nn.Sequential"
PEER_NAME = "Kornia in AugmentationSequential"


def main() -> None:
    """Measure, print and record."""
    torch.manual_seed(SEED)  # Kornia draws from the global generator
    comparisons = []
    for rows in ROWS:
        print(f"\naugmenting {rows} rows of 3 x {SIZE} x {SIZE}, {ROUNDS} interleaved rounds")
        tasks = steps(rows)
        seconds = seconds_of(tasks, ROUNDS)
        compared = [compare(seconds, ours="augment", peer=peer) for peer in (PLAIN_NAME, PEER_NAME)]
        print_comparisons(compared)
        comparisons += [{"rows": rows, **row} for row in compared]
    profile = profile_of(tasks["augment"], repeats=20)
    print_profile("augment", profile)
    write_measurements(
        "augmentation",
        seed=SEED,
        packages=["kornia"],
        size=SIZE,
        rounds=ROUNDS,
        speed=comparisons,
        profile=profile,
    )


def steps(rows: int) -> dict[str, Callable[[], object]]:
    """Return our augmentation and Kornia's, twice, of the same images."""
    generator = torch.Generator().manual_seed(SEED)
    images = torch.rand(rows, 3, SIZE, SIZE, generator=generator)
    poses = torch.arange(rows) % 4
    settings = AugmentSettings()
    plain = nn.Sequential(*peers(settings))
    peer = kornia.AugmentationSequential(*peers(settings))
    return {
        "augment": lambda: augment(images, poses, settings, generator=generator),
        PLAIN_NAME: lambda: plain(images),
        PEER_NAME: lambda: peer(images),
    }


def peers(settings: AugmentSettings) -> list[nn.Module]:
    """Return Kornia's transforms with the same settings."""
    return [
        kornia.RandomHorizontalFlip(p=settings.mirror_probability),
        kornia.RandomResizedCrop(
            (SIZE, SIZE), scale=settings.crop_scale, ratio=settings.crop_ratio
        ),
        kornia.ColorJitter(*settings.strengths, p=settings.jitter_probability),
        kornia.RandomGrayscale(p=settings.grey_probability),
    ]


if __name__ == "__main__":
    main()
