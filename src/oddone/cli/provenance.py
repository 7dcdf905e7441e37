"""Provenance: what is written beside a run, so that it can be repeated and resumed."""

import hashlib
import sys
from pathlib import Path
from typing import Any

from oddone.data import ImageSet
from oddone.training import TrainSettings
from oddone.training.run_directory import run_provenance


def provenance_of(
    source: str, images: ImageSet, settings: TrainSettings, *, strict: bool
) -> dict[str, Any]:
    """Return what is needed to repeat a run: command, date, seed, versions and images."""
    return {
        "command": ["oddone", *sys.argv[1:]],
        **run_provenance(settings),
        "data": describe_images(source, images, size=settings.model.image_size, strict=strict),
    }


def describe_images(
    source: str, images: ImageSet, *, size: int | None, strict: bool
) -> dict[str, Any]:
    """Return what is needed to load images again, and to see whether they have changed."""
    return {
        "source": source,
        "size": size,
        "strict": strict,
        "images": len(images),
        "classes": list(images.classes),
        "fingerprint": images.fingerprint,
        "broken": [list(broken) for broken in images.broken],
    }


def describe_encoder(encoder: Path) -> dict[str, str]:
    """Return the path of an encoder's file, and its hash to recognise it by."""
    with encoder.open("rb") as file:
        return {"encoder": str(encoder), "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
