"""Training looks before it leaps: settings that suit the images, the time and the memory.

What the user has chosen is never changed; a warning says what it costs.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from oddone import distributed
from oddone.data import ImageSet
from oddone.data.folder import sizes_up_to
from oddone.data.notation import look
from oddone.device import choose_device
from oddone.encoders import default_image_size, frozen_network, is_installed, is_pretrained
from oddone.errors import SettingsWarning
from oddone.features import embed_once
from oddone.presets import cpu, mcl, pretrained
from oddone.progress import Progress
from oddone.selection.rotations import compare_rotations
from oddone.training import TrainSettings
from oddone.training.batches import Batches
from oddone.training.cost import measure_cost
from oddone.training.feature_batches import FeatureBatches
from oddone.training.plan import (
    FEWEST_EPOCHS,
    MOST_BYTES,
    bytes_of_step,
    cut_batch,
    epochs_in_time,
    plan_image_size,
)
from oddone.training.settings_file import from_dict, to_dict
from oddone.transforms import rotations_and_mirrors

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


class SuitedRotations(NamedTuple):
    """Settings whose rotations suit the images."""

    settings: TrainSettings
    head: dict[str, Any] | None
    """What left-out classes say of a head with rotations and without, as JSON; None: not asked."""


def with_suited_rotations(
    settings: TrainSettings, source: ImageSet, *, progress: Progress | None = None
) -> SuitedRotations:
    """Return the settings without rotations where left-out classes are told apart better so.

    They are asked where MCL trains nothing but a head, with rotations as its task, on features of a
    pretrained encoder that can be kept: training then finds these in the cache. With one class, or
    too few images to leave some out, the rotations stay.
    """
    if not _learns_rotations_in_a_head(settings) or len(source.classes) < 2:
        return SuitedRotations(settings, None)
    batches, model, size = Batches(source, settings), settings.model, source.images.shape[-1]
    trained = frozen_network(model.encoder_name, size, source.classes, source.fingerprint)
    if not FeatureBatches.fit_into_memory(batches, trained.network.feature_dim):
        return SuitedRotations(settings, None)
    trained = trained.to(choose_device(settings.device))
    views, members = rotations_and_mirrors, batches.members
    features = embed_once(trained, views, source, members, progress=progress)
    labels = torch.from_numpy(source.labels[members])

    def ask() -> dict[str, Any] | None:
        estimate = compare_rotations(features, labels, source.classes, progress=progress)
        if estimate is None or estimate.head is None:
            return None
        method = "classes left out in turn"
        return {**estimate.head._asdict(), "auroc": estimate.auroc, "method": method}

    head = distributed.from_first(ask)
    if head is None:
        return SuitedRotations(settings, None)
    return SuitedRotations(replace(settings, rotations=head["rotations"]), head)


def _learns_rotations_in_a_head(settings: TrainSettings) -> bool:
    """Return whether MCL trains a head alone, with rotations, on an encoder that has learned."""
    return (
        settings.objective == "mcl"
        and settings.rotations == "task"
        and not settings.has_classifier
        and settings.model.trained_part == "head"
        and is_pretrained(settings.model.encoder_name)
    )
