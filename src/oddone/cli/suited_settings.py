"""`oddone train` looks before it leaps: settings that suit the images, the time and the memory.

What the user has chosen is never changed; a sentence says what it costs.
"""

from dataclasses import replace

from oddone.cli.terminal import note, say
from oddone.data import ImageSet
from oddone.data.folder import sizes_up_to
from oddone.data.notation import look
from oddone.device import choose_device
from oddone.encoders import default_image_size, is_installed, is_pretrained
from oddone.presets import mcl, pretrained
from oddone.training import TrainSettings
from oddone.training.cost import measure_cost
from oddone.training.plan import (
    FEWEST_EPOCHS,
    MOST_BYTES,
    bytes_of_step,
    cut_batch,
    epochs_in_time,
    plan_image_size,
)

SHORTEST_SIDE_OF_PHOTOGRAPHS = 96


def preset_for(source: str, otherwise: str) -> str:
    """Return the preset for images of which nothing else is known.

    That is "pretrained" for a folder of photographs, if its encoder is installed, and "mcl" for a
    folder of other pictures with one class, which leaves a classifier nothing to tell apart.
    """
    seen = look(source)
    if seen is None:
        return otherwise
    photographs = seen.side >= SHORTEST_SIDE_OF_PHOTOGRAPHS
    if photographs and is_installed(pretrained().model.encoder_name):
        return pretrained.__name__
    return mcl.__name__ if seen.classes == 1 else otherwise


def say_what_is_pretrained(settings: TrainSettings) -> None:
    """Print what is not trained from scratch, and how to choose otherwise."""
    name = settings.model.encoder_name
    if is_pretrained(name) and settings.model.trained_part == "head":
        say(
            f"a head is trained on {name}, which has learned from other photographs and stays as "
            f"it is; --preset cpu trains a small network from scratch, and oddone fit needs no "
            f"training at all"
        )


def with_suited_size(settings: TrainSettings, source: str) -> TrainSettings:
    """Return the settings with an image size for a folder of pictures, if nobody has chosen one."""
    seen, model = look(source), settings.model
    if model.image_size is not None or seen is None:
        return settings
    if is_pretrained(model.encoder_name):
        size = default_image_size(model.encoder_name)
        say(f"{size} x {size} pixels, as suits {model.encoder_name} (--model.image-size)")
    elif settings.minutes is not None and choose_device(settings.device).type == "cpu":
        size, epochs = plan_image_size(settings, seen.pictures, sizes_up_to(seen.side))
        say(
            f"{size} x {size} pixels: in {settings.minutes:g} minutes each image is seen about "
            f"{epochs:,.0f} times; --model.image-size chooses otherwise"
        )
    else:
        return settings
    return replace(settings, model=replace(model, image_size=size))


def with_suited_batch(
    settings: TrainSettings, source: ImageSet, *, keep_batch: bool
) -> TrainSettings:
    """Return the settings with a batch that fits into memory; say if few epochs fit into the time.

    On a GPU, or where only a head is trained, batches are no matter of memory here.
    """
    if choose_device(settings.device).type != "cpu" or settings.model.trained_part == "head":
        return settings
    images, image_size = len(source), source.images.shape[-1]
    cost = measure_cost(settings, image_size)
    needed = bytes_of_step(settings, images, cost)
    if needed > MOST_BYTES:
        fitting = cut_batch(settings, cost)
        gigabytes = f"would take about {needed / 1e9:.1f} GB"
        if keep_batch:
            note(f"note: {settings.batch.images:,} images a step {gigabytes} of memory")
        elif fitting.batch.images < settings.batch.images:
            say(
                f"{fitting.batch.images:,} images a step, as {settings.batch.images:,} {gigabytes} "
                f"of memory; --batch.images chooses otherwise"
            )
            settings = fitting
    epochs = epochs_in_time(settings, images, cost)
    if epochs < FEWEST_EPOCHS:
        note(
            f"note: in {settings.minutes:g} minutes each of {images:,} images is seen about "
            f"{epochs:.1f} times, and ten times is little; choose more --minutes, a smaller "
            f"--model.image-size than {image_size}, or oddone fit, which needs no training"
        )
    return settings
