"""Training looks before it leaps: settings that suit the images, the time and the memory.

What the user has chosen is never changed; a warning says what it costs.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace

from torch import nn

from oddone import distributed
from oddone.data import ImageSet
from oddone.data.folder import sizes_up_to
from oddone.data.notation import look
from oddone.device import choose_device
from oddone.encoders import default_image_size, is_installed, is_pretrained
from oddone.errors import SettingsWarning
from oddone.presets import cpu, mcl, pretrained
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
from oddone.training.settings_file import from_dict, to_dict

SHORTEST_SIDE_OF_PHOTOGRAPHS = 96

Say = Callable[[str], None]
"""What is done with a sentence about a choice; a command prints it."""


def unsaid(_: str) -> None:
    """Say nothing."""


def warn(sentence: str) -> None:
    """Warn in a sentence of what settings cost."""
    warnings.warn(sentence, SettingsWarning, stacklevel=3)


def chosen_by_first(choose: Callable[[], TrainSettings]) -> TrainSettings:
    """Return the settings that one process chooses: it measures times, which differ."""
    return from_dict(distributed.from_first(lambda: to_dict(choose())))


def preset_for(source: str) -> str | None:
    """Return the preset for a folder of which nothing else is known; None for any other source.

    That is "pretrained" for photographs, if its encoder is installed; for other pictures "cpu", and
    "mcl" where they are of one class, which leaves a classifier nothing to tell apart.
    """
    seen = look(source)
    if seen is None:
        return None
    photographs = seen.side >= SHORTEST_SIDE_OF_PHOTOGRAPHS
    if photographs and is_installed(pretrained().model.encoder_name):
        return pretrained.__name__
    return mcl.__name__ if seen.classes == 1 else cpu.__name__


def with_suited_size(settings: TrainSettings, source: str, say: Say = unsaid) -> TrainSettings:
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
    settings: TrainSettings,
    source: ImageSet,
    *,
    keep_batch: bool,
    encoder: nn.Module | None = None,
    say: Say = warn,
) -> TrainSettings:
    """Return the settings with a batch that fits into memory; warn if few epochs fit into the time.

    On a GPU, or where only a head is trained, batches are no matter of memory here. With
    `keep_batch` the batch was chosen by the user, who is warned of it instead. An encoder of the
    user's own is measured in the place of the one that the settings name.
    """
    if choose_device(settings.device).type != "cpu" or settings.model.trained_part == "head":
        return settings
    images, image_size = len(source), source.images.shape[-1]
    cost = measure_cost(settings, image_size, encoder)
    needed = bytes_of_step(settings, images, cost)
    if needed > MOST_BYTES:
        fitting = cut_batch(settings, cost)
        gigabytes = f"would take about {needed / 1e9:.1f} GB"
        if keep_batch:
            warn(f"{settings.batch.images:,} images a step {gigabytes} of memory")
        elif fitting.batch.images < settings.batch.images:
            say(
                f"{fitting.batch.images:,} images a step, as {settings.batch.images:,} {gigabytes} "
                f"of memory; --batch.images chooses otherwise"
            )
            settings = fitting
    epochs = epochs_in_time(settings, images, cost)
    if epochs < FEWEST_EPOCHS:
        warn(
            f"in {settings.minutes:g} minutes each of {images:,} images is seen about "
            f"{epochs:.1f} times, and ten times is little; choose more --minutes, a smaller "
            f"--model.image-size than {image_size}, or oddone fit, which needs no training"
        )
    return settings
