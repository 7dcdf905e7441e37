"""How the networks that the tables compare are trained, and the scales at which they are.

Every method has settings of its own at each scale: from `oddone.presets` or, for SupCLR and CSI,
those of their papers (`supclr_as_printed`, `csi_as_printed`) and those for minutes that were
searched for by `benchmarks/contrastive_recipes.py` (`supclr_in_minutes`, `csi_in_minutes`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from oddone import presets
from oddone.errors import SettingsError
from oddone.losses import MCLSettings
from oddone.training import TrainSettings
from oddone.training.settings import Objective, OptimiserSettings
from oddone.transforms import POSES, AugmentSettings, Rotations

FINE_TUNING_RATE = 1 / 3
"""What fine-tuning leaves of the learning rate: 0.2 at 512 rows, where the paper's rule is 0.6."""

TEMPERATURE_IN_MINUTES = 0.2
"""Of SupCLR and CSI, where their papers have 0.1 and 0.5 for hundreds of epochs."""

Method = Literal["mcl", "cross-entropy", "supclr", "csi", "default"]
"""Whose settings a recipe has; "default" is the preset that `oddone train` has unless told."""


@dataclass(frozen=True)
class Scale:
    """How much every row of a table may cost. A fine-tuned network was trained twice."""

    name: str
    words: str
    """What a reader has to know of it, for the caption of a table."""
    methods: Mapping[Method, TrainSettings]
    """For what is trained once; those of MCL are for SimCLR too, but for its own augmentation."""
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
        "as printed: ResNet-34 (‡: ResNet-18), 400 epochs, 100 more to fine-tune; cross-entropy, "
        "SupCLR and CSI: 200, 1,000 and 700 epochs by their own recipes"
    )
    supclr = replace(whole, epochs=1000.0, batch=replace(whole.batch, images=1024))
    csi = replace(whole, epochs=700.0, batch=replace(whole.batch, images=128))
    methods: dict[Method, TrainSettings] = {
        "mcl": whole,
        "cross-entropy": presets.paper_classifier(),
        "supclr": supclr_as_printed(supclr),
        "csi": csi_as_printed(csi),
        "default": whole,
    }
    return Scale("paper", words, methods, whole, after, "resnet18")


def cpu_scale(minutes: float) -> Scale:
    """Return a small network and so many minutes of two cores for each row.

    A fine-tuned network has half of them before, and half after: all rows cost the same. The
    default preset keeps images aside, as it does for its users; the others train on all.
    """
    if not 0 < minutes < float("inf"):
        raise SettingsError(f"minutes={minutes}: choose a positive number")
    whole, default = (
        replace(preset, minutes=minutes, device="cpu") for preset in (presets.mcl(), presets.cpu())
    )
    whole, classifier = (replace(each, held_out=0.0) for each in (whole, default))
    half = replace(whole, minutes=minutes / 2)
    rate = FINE_TUNING_RATE * whole.optimiser.learning_rate
    after = replace(half, optimiser=replace(half.optimiser, learning_rate=rate))
    words = (
        f"{whole.model.encoder_name} and {minutes:g} minutes of training for every row (‡ too; "
        f"cross-entropy: {classifier.model.encoder_name}, by its own recipe); fine-tuned: half of "
        f"them before, half after"
    )
    methods: dict[Method, TrainSettings] = {
        "mcl": whole,
        "cross-entropy": classifier,
        "supclr": supclr_in_minutes(whole),
        "csi": csi_in_minutes(whole),
        "default": default,
    }
    return Scale("cpu", words, methods, half, after, whole.model.encoder_name)


def scaling_scale(minutes: Sequence[float]) -> Scale:
    """Return the scale cpu for rows of different minutes, which each row says itself."""
    scales = [cpu_scale(each) for each in sorted(minutes)]
    networks: dict[str, list[str]] = {}
    for recipe in (CROSS_ENTROPY, ROTATION, SUPCLR, MCL, DEFAULT):
        encoder = scales[-1].methods[recipe.method].model.encoder_name
        networks.setdefault(encoder, []).append(recipe.name)
    words = "; ".join(f"{encoder} for {', '.join(each)}" for encoder, each in networks.items())
    return replace(scales[-1], words=f"{words}; as many minutes of two cores as the row says")


def supclr_as_printed(scale: TrainSettings) -> TrainSettings:
    """Return SupCLR as its authors train it on CIFAR-10, with the network and batch of a scale.

    Khosla et al., "Supervised Contrastive Learning" (2020), and their code: temperature 0.1; SGD
    with momentum 0.9, weight decay 1e-4 and learning rate 0.5 for 1,024 images a step, here in
    proportion to the images; ten of 1,000 epochs of warm-up and a cosine to a thousandth; crops of
    a fifth of the image or more, with SimCLR's colours.
    """
    return replace(
        scale,
        objective="supclr",
        rotations="none",
        loss=MCLSettings(temperature=0.1),
        batch=replace(scale.batch, poses_per_image=1),
        optimiser=OptimiserSettings(
            learning_rate=0.5 * scale.batch.images / 1024,
            weight_decay=1e-4,
            warm_up=max(0.01, scale.optimiser.warm_up),
            final_share=1e-3,
        ),
        augment=AugmentSettings(crop_scale=(0.2, 1.0)),
    )


def csi_as_printed(scale: TrainSettings) -> TrainSettings:
    """Return CSI with labels as its authors train it, with the network and batch of a scale.

    Tack et al., "CSI: Novelty Detection via Contrastive Learning on Distributionally Shifted
    Instances" (2020), and their code: temperature 0.5, weight decay 1e-6, ten epochs of warm-up and
    a cosine, SimCLR's crops and colours; 512 rotated images a step at the paper's scale. They train
    by LARS, whose learning rate of 0.1 says nothing of SGD's. Here it is SGD by SimCLR's rule, 0.3
    for 256 rotated images, as in MCL's paper. Joint labels of class and pose make rotations of an
    image negatives, which stands for their classifier of poses.
    """
    posed_images = scale.batch.images * scale.batch.poses_per_image
    return replace(
        scale,
        objective="supclr",
        rotations="task",
        loss=MCLSettings(temperature=0.5, beta=2.0),
        batch=replace(scale.batch, upright_share=1 / POSES),
        optimiser=OptimiserSettings(
            learning_rate=0.3 * posed_images / 256,
            weight_decay=1e-6,
            warm_up=max(0.01, scale.optimiser.warm_up),
        ),
        augment=AugmentSettings(),
    )


def supclr_in_minutes(scale: TrainSettings) -> TrainSettings:
    """Return SupCLR for minutes: with the optimiser and augmentation of a scale.

    By what its paper prints for 1,000 epochs it has learned little when minutes are over.
    """
    return replace(
        supclr_as_printed(scale),
        loss=MCLSettings(temperature=TEMPERATURE_IN_MINUTES),
        optimiser=scale.optimiser,
        augment=scale.augment,
    )


def csi_in_minutes(scale: TrainSettings) -> TrainSettings:
    """Return CSI for minutes: with the optimiser, augmentation and upright images of a scale."""
    printed = csi_as_printed(scale)
    return replace(
        printed,
        loss=replace(printed.loss, temperature=TEMPERATURE_IN_MINUTES),
        optimiser=scale.optimiser,
        augment=scale.augment,
        batch=scale.batch,
    )


@dataclass(frozen=True)
class Recipe:
    """A way to train a network."""

    name: str
    method: Method
    """Whose settings it has."""
    objective: Objective | None = None
    """Unless that of the method."""
    rotations: Rotations | None = None
    """Unless those of the method."""
    augment: AugmentSettings | None = None
    """Unless that of the method."""
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
        settings = _settings(recipe, scale, scale.methods[recipe.method], seed)
        return Plan(recipe.name, settings, None, recipe.outliers)
    before = _settings(recipe.start, scale, scale.before, seed)
    return Plan(
        recipe.name,
        _settings(recipe, scale, scale.after, seed),
        Plan(recipe.start.name, before, None, recipe.start.outliers),
        recipe.outliers,
    )


def _settings(recipe: Recipe, scale: Scale, length: TrainSettings, seed: int) -> TrainSettings:
    settings = replace(
        length,
        objective=recipe.objective or length.objective,
        rotations=recipe.rotations or length.rotations,
        augment=recipe.augment or length.augment,
        seed=seed,
    )
    if not recipe.spa:
        settings = replace(settings, loss=replace(settings.loss, spa_weight=0.0))
    if recipe.small:
        small = replace(settings.model, encoder_name=scale.small_encoder)
        settings = replace(settings, model=small)
    return _with_as_many_rows(settings) if settings.rotations == "none" else settings


def _with_as_many_rows(settings: TrainSettings) -> TrainSettings:
    """Return settings without rotations, with as many steps of as many rows as with them."""
    poses = settings.batch.poses_per_image
    batch = replace(settings.batch, images=poses * settings.batch.images, poses_per_image=1)
    epochs = None if settings.epochs is None else poses * settings.epochs
    return replace(settings, batch=batch, epochs=epochs)


CROSS_ENTROPY = Recipe("cross-entropy", "cross-entropy")
ROTATION = Recipe("cross-entropy with rotation task", "cross-entropy", rotations="task")
OUTLIER_EXPOSURE = Recipe("outlier exposure", "cross-entropy", outliers=True)
SUPCLR = Recipe("SupCLR", "supclr")
SUPCLR_SMALL = replace(SUPCLR, small=True)
CSI = Recipe("CSI", "csi")
CSI_SMALL = replace(CSI, small=True)
SIMCLR = Recipe("SimCLR", "mcl", "simclr", "none", AugmentSettings())
SIMCLR_FINE_TUNED = Recipe("SimCLR, fine-tuned", "mcl", "cross-entropy", "none", start=SIMCLR)
SIMCLR_JOINT = Recipe(
    "SimCLR, jointly fine-tuned", "mcl", "joint", "none", AugmentSettings(), start=SIMCLR
)
MCL = Recipe("MCL", "mcl")
MCL_SMALL = replace(MCL, small=True)
MCL_WITHOUT_SPA = Recipe("MCL without SPA and rotation task", "mcl", rotations="none", spa=False)
MCL_WITHOUT_TASK = Recipe("MCL without rotation task", "mcl", rotations="none")
MCL_AUGMENTED = Recipe("MCL with rotations as augmentation", "mcl", rotations="augmentation")
MCL_FINE_TUNED = Recipe("MCL, fine-tuned", "mcl", "cross-entropy", "none", start=MCL)
DEFAULT = Recipe("the preset cpu", "default")
