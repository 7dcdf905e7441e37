"""Small data and settings for tests of training."""

from dataclasses import replace

import numpy as np

from oddone.bench import Scale
from oddone.data import ImageSet
from oddone.presets import smoke
from oddone.training import TrainSettings


def tiny_source(images: int = 48, classes: int = 3, size: int = 16, seed: int = 0) -> ImageSet:
    """Return noisy images with one bright corner pattern per class."""
    generator = np.random.default_rng(seed)
    labels = np.arange(images) % classes
    pixels = generator.integers(0, 80, (images, 3, size, size))
    for image, label in enumerate(labels):
        pixels[image, label % 3, : size // 2, (label * 4) % size :] += 150
    names = tuple(f"class {label}" for label in range(classes))
    paths = [f"tiny[{image}]" for image in range(images)]
    return ImageSet(pixels.astype(np.uint8), labels.astype(np.int64), names, paths, f"tiny{seed}")


def tiny_settings(**changes: object) -> TrainSettings:
    """Return the smoke preset, smaller still."""
    settings = replace(smoke(), steps=6, seed=3, held_out=0.0, checkpoint_seconds=0.0)
    settings = replace(
        settings,
        batch=replace(settings.batch, images=12),
        model=replace(settings.model, encoder_name="resnet10-w16", head_hidden=16, head_dim=8),
    )
    return replace(settings, **changes)  # type: ignore[arg-type]


def scale_of(settings: TrainSettings, name: str) -> Scale:
    """Return a scale of the bench at which every method is trained by about these settings."""
    contrast = replace(settings, objective="supclr")
    return Scale(
        name,
        "a toy",
        {
            "mcl": settings,
            "cross-entropy": replace(settings, objective="cross-entropy", rotations="none"),
            "supclr": replace(contrast, rotations="none"),
            "csi": contrast,
            "default": replace(settings, class_weight=1.0),
        },
        settings,
        settings,
        settings.model.encoder_name,
    )
