"""The recipes of the networks that the tables compare, and the scales at which they are trained."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from oddone import presets
from oddone.errors import SettingsError
from oddone.training import TrainSettings
from oddone.training.settings import Objective
from oddone.transforms import Rotations

FINE_TUNING_RATE = 1 / 3
"""What fine-tuning leaves of the learning rate: 0.2 at 512 rows, where the paper's rule is 0.6."""


@dataclass(frozen=True)
class Scale:
    """How much every row of a table may cost. A fine-tuned network was trained twice."""

    name: str
    words: str
    """What a reader has to know of it, for the caption of a table."""
    at_once: TrainSettings
    """For what is contrasted, with rotations, and trained once."""
    classifier: TrainSettings
    """For cross-entropy from the beginning, which has a recipe of its own."""
    before: TrainSettings
    """For what is fine-tuned later."""
    after: TrainSettings
    """For fine-tuning it."""
    small_encoder: str
    """For the rows that are ResNet-18 in the paper, where the others are ResNet-34."""


def paper_scale() -> Scale:
    """Return the paper as printed; Appendix C says how it fine-tunes."""
    whole = presets.paper()
    after = replace(
        whole,
        epochs=100.0,
        batch=replace(whole.batch, images=512, poses_per_image=1),
        optimiser=replace(whole.optimiser, learning_rate=0.2),
    )
    words = (
        "as printed: ResNet-34 (‡: ResNet-18), 400 epochs, 100 more to fine-tune; cross-entropy: "
        "200 epochs by its own recipe"
    )
    return Scale("paper", words, whole, presets.paper_classifier(), whole, after, "resnet18")


def cpu_scale(minutes: float) -> Scale:
    """Return a small network and so many minutes for each row.

    A fine-tuned network has half of them before, and half after: all rows cost the same.
    """
    if not 0 < minutes < float("inf"):
        raise SettingsError(f"minutes={minutes}: choose a positive number")
    whole, classifier = (
        replace(preset, minutes=minutes, held_out=0.0)
        for preset in (presets.mcl(), presets.classifier())
    )
    half = replace(whole, minutes=minutes / 2)
    rate = FINE_TUNING_RATE * whole.optimiser.learning_rate
    after = replace(half, optimiser=replace(half.optimiser, learning_rate=rate))
    words = (
        f"{whole.model.encoder_name} and {minutes:g} minutes of training for every row (‡ too; "
        f"cross-entropy: {classifier.model.encoder_name}, by its own recipe); fine-tuned: half of "
        f"them before, half after"
    )
    return Scale("cpu", words, whole, classifier, half, after, whole.model.encoder_name)


@dataclass(frozen=True)
class Recipe:
    """A way to train a network."""

    name: str
    objective: Objective
    rotations: Rotations = "none"
    spa: bool = True
    """Whether MCL has its SPA term."""
    small: bool = False
    """Whether it is a ResNet-18 in the paper."""
    start: "Recipe | None" = None
    """What it is fine-tuned from."""
    outliers: bool = False
    """Whether it is shown images that are none of the classes."""


class Plan(NamedTuple):
    """A network to train, with every setting: all that decides what comes out, save the data."""

    name: str
    settings: TrainSettings
    start: "Plan | None"
    outliers: bool


def plan(recipe: Recipe, scale: Scale, seed: int) -> Plan:
    """Return how a recipe is trained at a scale."""
    if recipe.start is None:
        by_itself = recipe.objective == "cross-entropy"
        length = scale.classifier if by_itself else scale.at_once
        return Plan(recipe.name, _settings(recipe, scale, length, seed), None, recipe.outliers)
    before = _settings(recipe.start, scale, scale.before, seed)
    return Plan(
        recipe.name,
        _settings(recipe, scale, scale.after, seed),
        Plan(recipe.start.name, before, None, recipe.start.outliers),
        recipe.outliers,
    )


def _settings(recipe: Recipe, scale: Scale, length: TrainSettings, seed: int) -> TrainSettings:
    settings = replace(length, objective=recipe.objective, rotations=recipe.rotations, seed=seed)
    if not recipe.spa:
        settings = replace(settings, loss=replace(settings.loss, spa_weight=0.0))
    if recipe.small:
        small = replace(settings.model, encoder_name=scale.small_encoder)
        settings = replace(settings, model=small)
    return _with_as_many_rows(settings) if recipe.rotations == "none" else settings


def _with_as_many_rows(settings: TrainSettings) -> TrainSettings:
    """Return settings without rotations, with as many steps of as many rows as with them."""
    poses = settings.batch.poses_per_image
    batch = replace(settings.batch, images=poses * settings.batch.images, poses_per_image=1)
    epochs = None if settings.epochs is None else poses * settings.epochs
    return replace(settings, batch=batch, epochs=epochs)


CROSS_ENTROPY = Recipe("cross-entropy", "cross-entropy")
ROTATION = Recipe("cross-entropy with rotation task", "cross-entropy", "task")
OUTLIER_EXPOSURE = Recipe("outlier exposure", "cross-entropy", outliers=True)
SUPCLR = Recipe("SupCLR", "supclr")
SUPCLR_SMALL = replace(SUPCLR, small=True)
CSI = Recipe("CSI", "supclr", "task")  # joint labels: rotations of an image are negatives
CSI_SMALL = replace(CSI, small=True)
SIMCLR = Recipe("SimCLR", "simclr")
SIMCLR_FINE_TUNED = Recipe("SimCLR, fine-tuned", "cross-entropy", start=SIMCLR)
SIMCLR_JOINT = Recipe("SimCLR, jointly fine-tuned", "joint", start=SIMCLR)
MCL = Recipe("MCL", "mcl", "task")
MCL_SMALL = replace(MCL, small=True)
MCL_WITHOUT_SPA = Recipe("MCL without SPA and rotation task", "mcl", spa=False)
MCL_WITHOUT_TASK = Recipe("MCL without rotation task", "mcl")
MCL_AUGMENTED = Recipe("MCL with rotations as augmentation", "mcl", "augmentation")
MCL_FINE_TUNED = Recipe("MCL, fine-tuned", "cross-entropy", start=MCL)
