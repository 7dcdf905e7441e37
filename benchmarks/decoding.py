"""Decoding a folder of photographs against a plain loop with Pillow, and loading it again."""

import os
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter, ImageOps

from measure import compare, print_comparisons, seconds_of, write_measurements
from oddone.data import clean_cache, load

SEED = 0
PHOTOS, PHOTO_SIZE, ROUNDS = 600, (500, 400), 9
SIZES = (32, 224)


def main() -> None:
    """Measure, print and record."""
    comparisons = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ODDONE_CACHE"] = f"{folder}/cache"
        photos = Path(folder) / "photos"
        make_photos(photos)
        for size in SIZES:
            print(f"\n{PHOTOS} JPEG files of {PHOTO_SIZE} to {size} x {size}, {ROUNDS} rounds")
            compared = measure(photos, size)
            print_comparisons(compared)
            comparisons += [{"size": size, **row} for row in compared]
    write_measurements(
        "decoding",
        seed=SEED,
        packages=["pillow"],
        photos=PHOTOS,
        photo_size=PHOTO_SIZE,
        rounds=ROUNDS,
        speed=comparisons,
    )


def make_photos(folder: Path) -> None:
    """Write pictures with the smoothness of photographs, in two classes."""
    generator = np.random.default_rng(SEED)
    for name in ("even", "odd"):
        (folder / name).mkdir(parents=True)
    for number in range(PHOTOS):
        width, height = PHOTO_SIZE
        pixels = generator.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
        picture = Image.fromarray(pixels).resize(PHOTO_SIZE).filter(ImageFilter.DETAIL)
        picture.save(folder / ("odd" if number % 2 else "even") / f"{number}.jpg", quality=90)


def measure(photos: Path, size: int) -> list[dict[str, object]]:
    """Return how fast the first and the second load are."""

    def first_load() -> None:
        clean_cache()
        load(f"folder:{photos}", size=size)

    def second_load() -> None:
        load(f"folder:{photos}", size=size)

    def pillow_loop() -> np.ndarray:
        return np.stack([pillow_decode(path, size) for path in sorted(photos.glob("*/*.jpg"))])

    peer = "loop over Pillow"
    seconds = seconds_of(
        {"first load": first_load, "second load": second_load, peer: pillow_loop}, ROUNDS
    )
    return [compare(seconds, ours=name, peer=peer) for name in ("first load", "second load")]


def pillow_decode(path: Path, size: int) -> np.ndarray:
    """Return a picture as people usually read it: upright, RGB, resized, its centre cropped."""
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image).convert("RGB")
    return np.asarray(ImageOps.fit(upright, (size, size), Image.Resampling.BILINEAR))


if __name__ == "__main__":
    main()
