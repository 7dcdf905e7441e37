"""Everything that decides what a training run does. Frozen, complete, checked at birth."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from oddone.device import DeviceName
from oddone.encoders import ModelSettings
from oddone.errors import SettingsError, check_numbers
from oddone.losses import MCLSettings
from oddone.transforms import POSES, AugmentSettings, Rotations

Objective = Literal["mcl", "supclr", "simclr", "cross-entropy", "joint"]
OptimiserMethod = Literal["sgd", "adamw", "muon"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]

LENGTHS = ("epochs", "steps", "minutes")
"""A run has exactly one of these."""
LONGEST = 1e12
WITHOUT_TRAINING = "; to fit a detector to an encoder as it is, without training, use oddone fit"


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """What one step sees."""

    images: int = 256
    """Source images a step."""
    poses_per_image: Literal[1, 4] = 4
    """Whether a batch holds all four poses of each image, as in the paper, or one at random."""
    upright_share: float = 1 / POSES
    """The share of images that a batch shows upright, where it holds one pose of each at random."""
    parts: int = 1
    """In how many parts the rows go through the network, side by side on a CPU's cores: faster for
    small networks. Batch norm sees one part at a time, so this changes the result a little, and the
    number of cores does not. Of several processes each takes whole parts; with 1, batch norm sees
    the rows of all of them."""
    chunk: int | None = None
    """How many rows go through the network at a time, twice, where a whole batch is too large for
    the memory: the loss is still that of all rows. Batch norm sees one chunk at a time."""

    def __post_init__(self) -> None:
        if self.images < 2:
            raise SettingsError(f"batch.images={self.images}: a contrast needs at least 2 images")
        if self.poses_per_image not in {1, POSES}:
            raise SettingsError(
                f"batch.poses_per_image={self.poses_per_image}: choose 4 (every pose of each "
                f"image) or 1 (one pose at random)"
            )
        if not 0 < self.upright_share <= 1:
            raise SettingsError(
                f"batch.upright_share={self.upright_share}: choose it above 0 (0.25: all poses "
                f"alike), up to 1 (no rotated images)"
            )
        if not 1 <= self.parts <= self.images:
            raise SettingsError(
                f"batch.parts={self.parts}: choose 1 (all rows at once) to batch.images="
                f"{self.images}"
            )
        if self.chunk is not None and self.chunk < 2:
            raise SettingsError(f"batch.chunk={self.chunk}: choose 2 rows or more")
        if self.chunk is not None and self.parts > 1:
            raise SettingsError(
                f"batch.chunk={self.chunk} and batch.parts={self.parts} are two ways to cut a "
                f"batch; set batch.parts=1, or leave batch.chunk out"
            )

    def of_images(self, images: int) -> "BatchSettings":
        """Return the same for batches of so many images, which may be too few for as many parts."""
        return replace(self, images=images, parts=min(self.parts, images))


@dataclass(frozen=True, kw_only=True)
class OptimiserSettings:
    """How weights are changed; the learning rate follows the length of the run."""

    method: OptimiserMethod = "sgd"
    """SGD with momentum; AdamW, which suits a new head on an encoder that stays as it is; or Muon,
    which learns the filters of a new convolutional network in fewer steps."""
    learning_rate: float = 1.2
    encoder_share: float = 1.0
    """The learning rate of the encoder as a share of that of everything else: less than 1 where the
    encoder has learned from other images, and must not forget it."""
    momentum: float = 0.9
    """The share of the gradients before that is kept: AdamW's first beta."""
    nesterov: bool = False
    weight_decay: float = 1e-6
    warm_up: float = 0.0
    """The share of the run in which the learning rate rises from 0, before the cosine."""
    final_share: float = 0.0
    """What is left of the learning rate at the end."""

    def __post_init__(self) -> None:
        check_numbers(self, "optimiser.")
        if not 0 < self.learning_rate < float("inf"):
            raise SettingsError(
                f"optimiser.learning_rate={self.learning_rate}: choose a positive number"
                f"{WITHOUT_TRAINING if self.learning_rate == 0 else ''}"
            )
        if self.method not in get_args(OptimiserMethod):
            raise SettingsError(
                f"optimiser.method={self.method!r}: choose one of "
                f"{', '.join(get_args(OptimiserMethod))}"
            )
        if self.method != "sgd" and self.nesterov:
            raise SettingsError(
                "optimiser.nesterov is a way of SGD; set it to false, or optimiser.method='sgd'"
            )
        if not 0 < self.encoder_share <= 1:
            raise SettingsError(
                f"optimiser.encoder_share={self.encoder_share}: choose it above 0, up to 1; to "
                f"leave the encoder as it is, set model.trained_part='head'"
            )
        if not 0 <= self.momentum < 1:
            raise SettingsError(f"optimiser.momentum={self.momentum}: choose it in 0..1, not 1")
        if self.nesterov and self.momentum == 0:
            raise SettingsError("optimiser.nesterov needs a momentum; set optimiser.momentum")
        if not 0 <= self.weight_decay < float("inf"):
            raise SettingsError(
                f"optimiser.weight_decay={self.weight_decay}: choose 0 or a positive number"
            )
        if not 0 <= self.warm_up < 1:
            raise SettingsError(f"optimiser.warm_up={self.warm_up}: choose it in 0..1, not 1")
        if not 0 <= self.final_share <= 1:
            raise SettingsError(f"optimiser.final_share={self.final_share}: choose it in 0..1")


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """A training run. Set exactly one of `epochs`, `steps` and `minutes`.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from oddone.presets import cpu
    >>> replace(cpu(), minutes=30.0).batch.images
    256

    """

    epochs: float | None = None
    """How often every image is seen; the learning rate's cosine follows."""
    steps: int | None = None
    """How many batches are seen."""
    minutes: float | None = None
    """How long to train; the learning rate's cosine follows the clock."""
    objective: Objective = "mcl"
    """The loss: MCL, SupCLR, SimCLR, cross-entropy on a linear classifier, or that with SimCLR."""
    rotations: Rotations = "task"
    """Quarter rotations as the auxiliary task, as augmentation (the paper's DA), or none."""
    loss: MCLSettings = field(default_factory=MCLSettings)
    """MCL's settings; the other contrastive losses use its temperature."""
    supclr_siblings: bool = True
    """Whether the objective "supclr" also attracts the other views of the same image, as Khosla et
    al. do, or only views of other images of the class, as the paper prints it (Eq. 33 to 35)."""
    class_weight: float = 0.0
    """What cross-entropy on upright images weighs beside MCL; with 0 there is no classifier."""
    simclr_weight: float = 0.1
    """What SimCLR weighs beside cross-entropy in the objective "joint": the paper's lambda."""
    outlier_weight: float = 0.5
    """What outliers, where they are given, weigh beside the images with a class."""
    model: ModelSettings = field(default_factory=ModelSettings)
    """Which network is trained."""
    batch: BatchSettings = field(default_factory=BatchSettings)
    """What one step sees."""
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    """How weights are changed."""
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    """How views are cut out and coloured."""
    held_out: float = 0.1
    """The share of every class that is kept aside, to calibrate the detector with; if any, at least
    one image of a class that has five."""
    held_out_at_most: int = 200
    """How many images of a class are kept aside at most, on average: a threshold needs no more."""
    seed: int = 0
    """What all randomness follows from."""
    device: DeviceName = "auto"
    """Where to compute; by default on the fastest device there is."""
    precision: Precision = "auto"
    """float32, or on CUDA autocast to bfloat16 or float16; by default bfloat16 where it is fast."""
    compile: bool = False
    """Whether torch.compile rewrites the network: slower to start, faster from then on."""
    checkpoint_seconds: float = 60.0
    """How much work a sudden end can lose."""

    def __post_init__(self) -> None:
        check_numbers(self)
        self._check_length()
        for name, choices in (
            ("objective", get_args(Objective)),
            ("rotations", get_args(Rotations)),
            ("device", get_args(DeviceName)),
            ("precision", get_args(Precision)),
        ):
            if getattr(self, name) not in choices:
                raise SettingsError(
                    f"{name}={getattr(self, name)!r}: choose one of {', '.join(choices)}"
                )
        for name in ("class_weight", "simclr_weight", "outlier_weight"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise SettingsError(f"{name}={getattr(self, name)}: choose 0 or a positive number")
        if not 0 <= self.held_out < 1:
            raise SettingsError(
                f"held_out={self.held_out}: choose a share from 0 (train on all images) to 1, not 1"
            )
        if self.held_out_at_most < 1:
            raise SettingsError(
                f"held_out_at_most={self.held_out_at_most}: choose 1 or more; to train on all "
                f"images, set held_out=0"
            )
        if self.model.head_dim is None:
            raise SettingsError(
                "model.head_dim=None: a network without a head is not trained; choose a number, "
                "such as 128, or fit a detector to the encoder as it is"
            )
        if self.compile and self.batch.parts > 1:
            raise SettingsError(
                f"compile and batch.parts={self.batch.parts} cannot go together; set batch.parts=1"
            )
        if self.checkpoint_seconds < 0:
            raise SettingsError(
                f"checkpoint_seconds={self.checkpoint_seconds}: choose 0 (after every step) or more"
            )

    def _check_length(self) -> None:
        lengths = {name: getattr(self, name) for name in LENGTHS}
        given = {name: value for name, value in lengths.items() if value is not None}
        if len(given) != 1:
            raise SettingsError(
                f"{' and '.join(given) or 'no length'} given; set exactly one of epochs, steps "
                f"and minutes"
            )
        for name, value in given.items():
            if not 0 < value <= LONGEST:
                too_long = f", at most {LONGEST:g}" if value > 0 else ""
                hint = WITHOUT_TRAINING if value == 0 else too_long
                raise SettingsError(f"{name}={value}: choose a positive number{hint}")

    def share_done(self, step: int, seconds: float, steps_per_epoch: int) -> float:
        """Return how much of the run is done after so many steps in so many seconds.

        Parameters
        ----------
        step
            How many steps were made.
        seconds
            How long they took.
        steps_per_epoch
            How many steps show every image once.

        """
        if self.minutes is not None:
            return seconds / (60 * self.minutes)
        if self.steps is not None:
            return step / self.steps
        assert self.epochs is not None  # noqa: S101  (one of the three is always set)
        return step / math.ceil(self.epochs * steps_per_epoch)

    @property
    def has_classifier(self) -> bool:
        """Whether a linear classifier is trained along with the encoder."""
        return self.objective in {"cross-entropy", "joint"} or (
            self.objective == "mcl" and self.class_weight > 0
        )

    @property
    def predicts_poses(self) -> bool:
        """Whether a second classifier learns the poses."""
        return self.objective in {"cross-entropy", "joint"} and self.rotations == "task"

    @property
    def views(self) -> int:
        """How many views of each posed image a step sees: a contrast needs two."""
        return 1 if self.objective == "cross-entropy" else 2

    @property
    def poses_per_image(self) -> int:
        return 1 if self.rotations == "none" else self.batch.poses_per_image
