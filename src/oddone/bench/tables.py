"""The paper's seven tables, and two of ours: rows, columns, the paper's numbers.

One of ours is by the OpenOOD protocol, the other compares methods by the minutes they are given.

The numbers below are the paper's, typed once, in percent, in the order of its columns. Ours are in
records.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from oddone import baselines
from oddone.bench import recipes
from oddone.bench.recipes import Recipe
from oddone.bench.scoring import (
    UPRIGHT_MEAN,
    AsTrained,
    Baseline,
    ClassDistance,
    ScoringRule,
)
from oddone.detector import Detector
from oddone.evaluation import Averages
from oddone.fusion import average, harmonic, nearest, view_weighted

Metric = Literal["accuracy", "auroc", "fpr_at_95_ind", "fpr_at_95_ood", "aupr_in", "aupr_out"]

METRIC_NAMES: dict[Metric, str] = {
    "accuracy": "Acc",
    "auroc": "AUROC",
    "fpr_at_95_ind": "FPR@95",
    "fpr_at_95_ood": "FPR@95",
    "aupr_in": "AUPR (IND)",
    "aupr_out": "AUPR (OOD)",
}
LOWER_IS_BETTER: tuple[Metric, ...] = ("fpr_at_95_ind", "fpr_at_95_ood")

OOD_NAMES = {
    "svhn": "SVHN",
    "lsun": "LSUN(F)",
    "imagenet": "ImageNet(F)",
    "cifar100": "CIFAR-100",
}
"""What the paper calls its OOD sets. ImageNet(F) and LSUN(F) are made by `oddone data fix`."""


EVERY_SET: tuple[str, ...] = ("*",)


class Column(NamedTuple):
    """A number of each row."""

    metric: Metric
    of: str | None = None
    """The OOD set, or the average of some, that it is about; None for accuracy."""

    @property
    def title(self) -> str:
        if self.of is None:
            return METRIC_NAMES[self.metric]
        return f"{OOD_NAMES.get(self.of, self.of)} {METRIC_NAMES[self.metric]}"

    @property
    def lower_is_better(self) -> bool:
        return self.metric in LOWER_IS_BETTER


class Row(NamedTuple):
    """A network and the rule by which it scores images."""

    names: tuple[str, ...]
    """As in the paper, one for each of the table's headings."""
    recipe: Recipe
    scoring: ScoringRule | AsTrained
    paper: tuple[float | None, ...] = ()
    """The paper's numbers, one for each of the table's columns; none in rows that are ours."""
    minutes: float | None = None
    """How long its network is trained, unless as long as the scale says."""


@dataclass(frozen=True)
class Table:
    """What is compared, and what is measured."""

    name: str
    title: str
    headings: tuple[str, ...]
    """What the names of a row say."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""
    decimals: int = 2
    """How many the paper prints."""
    averages: Averages | None = None
    """OOD sets to average over; `EVERY_SET` stands for all that are given."""

    def paper_number(self, names: tuple[str, ...], column: Column) -> float | None:
        """Return what the paper has at this place, in percent, if it has anything."""
        numbers = next((row.paper for row in self.rows if row.names == names), ())
        return dict(zip(self.columns, numbers, strict=False)).get(column)


ACCURACY = Column("accuracy")
MAIN_COLUMNS = (ACCURACY, *(Column("auroc", name) for name in OOD_NAMES))
ABLATION_COLUMNS = (ACCURACY, Column("auroc", "cifar100"))
METRICS_COLUMNS = (
    *ABLATION_COLUMNS,
    Column("fpr_at_95_ind", "cifar100"),
    Column("aupr_in", "cifar100"),
    Column("aupr_out", "cifar100"),
)

MSP = Baseline("maximum softmax", lambda trained, *_: baselines.msp(trained))
ENERGY = Baseline("energy", lambda trained, *_: baselines.energy(trained))
ODIN = Baseline("ODIN", lambda trained, *_: baselines.odin(trained))
MAHALANOBIS = Baseline(
    "Mahalanobis of Lee et al.",
    lambda trained, training, _: baselines.mahalanobis(trained, training),
)
MDS = Baseline(
    "Mahalanobis, last layer", lambda trained, training, _: baselines.mds(trained, training)
)
NEIGHBOURS = Baseline(
    "nearest neighbours",
    lambda trained, training, _: baselines.nearest_neighbours(trained, training),
)
ROTATION = Baseline("rotation", lambda trained, *_: baselines.rotation(trained))
ROTATION_SEI = Baseline("rotation with SEI", lambda trained, *_: baselines.rotation_sei(trained))
UPRIGHT = Baseline(
    "distance of the mean of six upright views, features",
    lambda trained, training, progress: Detector.fit(
        trained, training, UPRIGHT_MEAN, progress=progress
    ),
)

PLAIN = ClassDistance()
SEI = ClassDistance(8, harmonic)

BY_DISTANCE = "SupCLR, CSI and MCL score by the distance to the nearest class, all alike."
FPR = "FPR@95: the share of OOD images accepted when 95 % of IND images are."

PAPER_MAIN = Table(
    "paper-main",
    "Test accuracy, and AUROC of OOD data, of each method",
    ("Training method",),
    MAIN_COLUMNS,
    (
        Row(("Baseline",), recipes.CROSS_ENTROPY, MSP, (93.6, 89.9, 84.3, 88.0, 86.4)),
        Row(("ODIN",), recipes.CROSS_ENTROPY, ODIN, (93.6, 85.8, 83.2, 87.7, 85.8)),
        Row(
            ("Mahalanobis Distance",),
            recipes.CROSS_ENTROPY,
            MAHALANOBIS,
            (94.1, 99.1, 87.9, 90.9, 88.2),
        ),
        Row(("Energy",), recipes.CROSS_ENTROPY, ENERGY),
        Row(("k-Nearest Neighbours",), recipes.CROSS_ENTROPY, NEIGHBOURS),
        Row(("Auxiliary Rotation",), recipes.ROTATION, ROTATION, (94.3, 97.3, 94.5, 94.7, 90.7)),
        Row(
            ("Outlier Exposure",),
            recipes.OUTLIER_EXPOSURE,
            MSP,
            (None, 98.4, None, None, 93.3),
        ),
        Row(("SupCLR ‡",), recipes.SUPCLR_SMALL, PLAIN, (93.8, 97.3, 91.6, 90.5, 88.6)),
        Row(("CSI + SupCLR ‡",), recipes.CSI_SMALL, PLAIN, (94.8, 96.5, 92.1, 92.4, 90.5)),
        Row(
            ("CSI + SupCLR + Ensemble ‡",),
            recipes.CSI_SMALL,
            ClassDistance(4, average),
            (96.1, 97.9, 93.5, 94.0, 92.2),
        ),
        Row(
            ("Auxiliary Rotation + SEI",),
            recipes.ROTATION,
            ROTATION_SEI,
            (95.8, 98.4, 95.7, 95.8, 92.3),
        ),
        Row(("MCL + SEI ‡",), recipes.MCL_SMALL, SEI, (95.9, 98.9, 96.0, 95.9, 93.1)),
        Row(("MCL + SEI",), recipes.MCL, SEI, (96.4, 99.3, 96.3, 96.5, 94.0)),
    ),
    note=f"‡ ResNet-18 in the paper; the others are ResNet-34. {BY_DISTANCE}",
    decimals=1,
)

PAPER_SUPCLR = Table(
    "paper-supclr",
    "MCL and SupCLR",
    ("Training method",),
    MAIN_COLUMNS,
    (
        Row(("SupCLR",), recipes.SUPCLR_SMALL, PLAIN, (93.8, 97.3, 91.6, 90.5, 88.6)),
        Row(("MCL",), recipes.MCL_SMALL, PLAIN, (93.1, 97.9, 93.8, 93.6, 90.8)),
        Row(("MCL + SEI",), recipes.MCL_SMALL, SEI, (95.9, 98.9, 96.0, 95.9, 93.1)),
    ),
    note=f"All rows are ResNet-18 in the paper. {BY_DISTANCE}",
    decimals=1,
)

PAPER_MCL = Table(
    "paper-mcl",
    "What each part of MCL adds",
    ("Model",),
    ABLATION_COLUMNS,
    (
        Row(("Baseline (w/o NT-Xent)",), recipes.CROSS_ENTROPY, MSP, (93.61, 86.40)),
        Row(("SimCLR (CE fine-tuned)",), recipes.SIMCLR_FINE_TUNED, MSP, (93.88, 87.56)),
        Row(("SimCLR (joint fine-tuned)",), recipes.SIMCLR_JOINT, MSP, (93.91, 88.51)),
        Row(("MCL (w/o SPA, w/o aux)",), recipes.MCL_WITHOUT_SPA, PLAIN, (91.41, 85.03)),
        # Printed as 89.49 here, and as 90.49 in the three other tables that have it.
        Row(("MCL (w/o aux)",), recipes.MCL_WITHOUT_TASK, PLAIN, (94.35, 90.49)),
        Row(("MCL (CE fine-tuned)",), recipes.MCL_FINE_TUNED, MSP, (94.22, 88.89)),
        Row(("MCL",), recipes.MCL, PLAIN, (94.03, 91.12)),
    ),
)

PAPER_SEI = Table(
    "paper-sei",
    "Ways to fuse the views of Self-Ensemble Inference",
    ("Model", "Agg"),
    ABLATION_COLUMNS,
    (
        Row(("MCL + w/o SEI", "-"), recipes.MCL, PLAIN, (94.03, 91.12)),
        Row(("MCL + 4-way SEI", "avg"), recipes.MCL, ClassDistance(4, average), (94.68, 93.20)),
        Row(("MCL + 4-way SEI", "max"), recipes.MCL, ClassDistance(4, nearest), (95.97, 92.30)),
        Row(("MCL + 4-way SEI", "w-avg"), recipes.MCL, ClassDistance(4, harmonic), (96.12, 93.29)),
        Row(("MCL + 4-way SEI", "w-avg as printed"), recipes.MCL, ClassDistance(4, view_weighted)),
        Row(("MCL + 8-way SEI", "avg"), recipes.MCL, ClassDistance(8, average), (94.74, 93.37)),
        Row(("MCL + 8-way SEI", "max"), recipes.MCL, ClassDistance(8, nearest), (96.40, 92.00)),
        Row(("MCL + 8-way SEI", "w-avg"), recipes.MCL, ClassDistance(8, harmonic), (96.43, 94.06)),
        Row(("MCL + 8-way SEI", "w-avg as printed"), recipes.MCL, ClassDistance(8, view_weighted)),
    ),
    note=(
        "w-avg is the weighted average of the authors' code: the harmonic mean over views. The "
        "paper's equation is another, here as printed; its numbers stand beside the first."
    ),
)

PAPER_AUX = Table(
    "paper-aux",
    "Rotations as the auxiliary task, as data augmentation (DA), and not at all",
    ("Model", "Agg"),
    ABLATION_COLUMNS,
    (
        Row(("MCL + w/o Aux", "-"), recipes.MCL_WITHOUT_TASK, PLAIN, (94.35, 90.49)),
        Row(("MCL + w/o Aux", "w-avg"), recipes.MCL_WITHOUT_TASK, SEI, (83.96, 71.17)),
        Row(("MCL + DA", "-"), recipes.MCL_AUGMENTED, PLAIN, (92.55, 90.07)),
        Row(("MCL + DA", "w-avg"), recipes.MCL_AUGMENTED, SEI, (94.70, 92.08)),
        Row(("MCL + Aux", "-"), recipes.MCL, PLAIN, (94.03, 91.12)),
        Row(("MCL + Aux", "w-avg"), recipes.MCL, SEI, (96.43, 94.06)),
    ),
    note="Agg -: one view, without SEI; w-avg: 8-way SEI.",
)


def _in_both_spaces(
    recipe: Recipe,
    names: tuple[str, str, str],
    scoring: ClassDistance,
    of_features: tuple[float, ...],
    of_head: tuple[float, ...],
) -> tuple[Row, Row]:
    """Return two rows: by the latent features (LF), then by the projection head (PH)."""
    method, sei, n_way = names
    return (
        Row((method, sei, f"{n_way}LF"), recipe, replace(scoring, space="features"), of_features),
        Row((method, sei, f"{n_way}PH"), recipe, replace(scoring, space="head"), of_head),
    )


W_OUT, W_DA = "MCL (w/o Aux)", "MCL (w/o Aux) + DA"
FOUR, EIGHT = "4-way SEI + ", "8-way SEI + "

PAPER_SEI_METRICS = Table(
    "paper-sei-metrics",
    "Self-Ensemble Inference by latent features (LF) and projection head (PH)",
    ("Methods", "SEI", "Model"),
    METRICS_COLUMNS,
    (
        *_in_both_spaces(
            recipes.MCL_WITHOUT_TASK,
            (W_OUT, "-", ""),
            PLAIN,
            (91.74, 90.07, 57.55, 91.63, 87.23),
            (94.35, 90.49, 52.69, 91.28, 87.58),
        ),
        *_in_both_spaces(
            recipes.MCL_WITHOUT_TASK,
            (W_OUT, "w-avg", EIGHT),
            SEI,
            (86.59, 76.89, 70.77, 75.89, 76.66),
            (83.96, 71.17, 76.11, 69.64, 71.59),
        ),
        *_in_both_spaces(
            recipes.MCL_AUGMENTED,
            (W_DA, "-", ""),
            PLAIN,
            (91.78, 90.00, 57.74, 91.55, 87.17),
            (92.55, 90.07, 54.93, 91.17, 87.89),
        ),
        *_in_both_spaces(
            recipes.MCL_AUGMENTED,
            (W_DA, "w-avg", EIGHT),
            SEI,
            (93.49, 92.65, 50.46, 93.00, 89.36),
            (94.70, 92.08, 44.94, 92.92, 90.55),
        ),
        *_in_both_spaces(
            recipes.MCL,
            ("MCL", "-", ""),
            PLAIN,
            (90.04, 91.00, 51.56, 92.30, 88.62),
            (94.03, 91.12, 48.16, 91.80, 89.24),
        ),
        *_in_both_spaces(
            recipes.MCL,
            ("MCL", "avg", FOUR),
            ClassDistance(4, average),
            (91.12, 91.98, 49.27, 93.30, 89.46),
            (94.68, 93.20, 38.24, 93.83, 91.73),
        ),
        *_in_both_spaces(
            recipes.MCL,
            ("MCL", "avg", EIGHT),
            ClassDistance(8, average),
            (91.61, 92.14, 47.37, 93.41, 89.67),
            (94.74, 93.37, 36.23, 93.89, 92.04),
        ),
        *_in_both_spaces(
            recipes.MCL,
            ("MCL", "max", FOUR),
            ClassDistance(4, nearest),
            (93.62, 92.06, 45.66, 93.11, 89.37),
            (95.97, 92.30, 40.26, 92.33, 91.27),
        ),
        *_in_both_spaces(
            recipes.MCL,
            ("MCL", "max", EIGHT),
            ClassDistance(8, nearest),
            (94.35, 92.00, 44.63, 93.00, 89.19),
            (96.40, 92.00, 40.01, 91.84, 91.11),
        ),
        *_in_both_spaces(
            recipes.MCL,
            ("MCL", "w-avg", FOUR),
            ClassDistance(4, harmonic),
            (91.94, 92.34, 45.63, 93.50, 90.02),
            (96.12, 93.29, 37.06, 93.71, 92.17),
        ),
        *_in_both_spaces(
            recipes.MCL,
            ("MCL", "w-avg", EIGHT),
            SEI,
            (92.43, 92.53, 44.38, 93.64, 90.28),
            (96.43, 94.06, 32.67, 94.59, 93.21),
        ),
    ),
    note=f"SEI -: one view. {FPR}",
)

PAPER_MCL_METRICS = Table(
    "paper-mcl-metrics",
    "What each part of MCL adds, by more metrics",
    ("Model",),
    METRICS_COLUMNS,
    (
        Row(
            ("MCL (w/o SPA, w/o aux)",),
            recipes.MCL_WITHOUT_SPA,
            PLAIN,
            (91.41, 85.03, 60.70, 84.26, 83.65),
        ),
        Row(
            ("MCL (w/o aux)",),
            recipes.MCL_WITHOUT_TASK,
            PLAIN,
            (94.35, 90.49, 52.69, 91.28, 87.58),
        ),
        # The last number is 87.89 in the table of paper-sei-metrics.
        Row(
            ("MCL (w/o aux) + DA",),
            recipes.MCL_AUGMENTED,
            PLAIN,
            (92.55, 90.07, 54.93, 91.17, 87.98),
        ),
        Row(
            ("MCL (w/o aux) + DA + SEI",),
            recipes.MCL_AUGMENTED,
            SEI,
            (94.70, 92.08, 44.94, 92.92, 90.55),
        ),
        Row(("MCL",), recipes.MCL, PLAIN, (94.03, 91.12, 48.16, 91.80, 89.24)),
        Row(
            ("MCL + fine-tuning",),
            recipes.MCL_FINE_TUNED,
            MSP,
            (94.22, 88.89, 62.84, 90.20, 84.70),
        ),
        Row(("MCL + SEI",), recipes.MCL, SEI, (96.43, 94.06, 32.67, 94.59, 93.21)),
    ),
    note=FPR,
)

OPENOOD = Table(
    "openood",
    "Near and far OOD sets, by the OpenOOD protocol",
    ("Method",),
    (
        ACCURACY,
        Column("auroc", "near"),
        Column("fpr_at_95_ood", "near"),
        Column("auroc", "far"),
        Column("fpr_at_95_ood", "far"),
    ),
    (
        Row(("MSP",), recipes.CROSS_ENTROPY, MSP),
        Row(("ODIN",), recipes.CROSS_ENTROPY, ODIN),
        Row(("MDS",), recipes.CROSS_ENTROPY, MDS),
        Row(("Energy",), recipes.CROSS_ENTROPY, ENERGY),
        Row(("KNN",), recipes.CROSS_ENTROPY, NEIGHBOURS),
        Row(("Rotation",), recipes.ROTATION, ROTATION),
        Row(("Rotation + SEI",), recipes.ROTATION, ROTATION_SEI),
        Row(("Outlier Exposure",), recipes.OUTLIER_EXPOSURE, MSP),
        Row(("SupCLR",), recipes.SUPCLR, PLAIN),
        Row(("CSI",), recipes.CSI, PLAIN),
        Row(("CSI + Ensemble",), recipes.CSI, ClassDistance(4, average)),
        Row(("MCL",), recipes.MCL, PLAIN),
        Row(("MCL + SEI",), recipes.MCL, SEI),
    ),
    note=(
        "FPR@95, as in OpenOOD: the share of IND images called anomalous when 95 % of OOD images "
        "are. MDS is by the last layer alone; the labels of MDS and KNN are the classifier's."
    ),
    averages={
        "near": ("cifar100", "tiny_imagenet"),
        "far": ("mnist", "svhn", "textures", "places365", "scenes"),
    },
)

SCALING_MINUTES = (1.0, 2.0, 5.0, 10.0, 20.0)
MEAN_AUROC = Column("auroc", "mean")


def scaling(minutes: Sequence[float]) -> Table:
    """Return the table that compares methods by the minutes they are given."""
    methods = (
        ("cross-entropy", recipes.CROSS_ENTROPY, ENERGY),
        ("cross-entropy, rotation task", recipes.ROTATION, ROTATION_SEI),
        ("SupCLR", recipes.SUPCLR, AsTrained()),
        ("MCL + SEI", recipes.MCL, AsTrained()),
        ("MCL, upright views", recipes.MCL, UPRIGHT),
        ("preset cpu", recipes.DEFAULT, AsTrained()),
    )
    lengths = sorted(set(minutes))
    return Table(
        "scaling",
        "Test accuracy, and AUROC of OOD data, by minutes of training on two cores",
        ("Method", "Minutes"),
        (ACCURACY, MEAN_AUROC),
        tuple(
            Row((name, f"{length:g}"), recipe, scoring, minutes=length)
            for name, recipe, scoring in methods
            for length in lengths
        ),
        note=(
            "Cross-entropy scores by its energy, with the rotation task by its poses too, in eight "
            "views; the others as the detector that oddone train makes of them. MCL with upright "
            "views is the same network as MCL + SEI: its views are moved and mirrored instead of "
            "rotated, and measured as those of the preset cpu. A minute of two "
            "cores is two minutes of processor time, so many steps as they pay for."
        ),
        averages={"mean": EVERY_SET},
    )


SCALING = scaling(SCALING_MINUTES)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        PAPER_MAIN,
        PAPER_SUPCLR,
        PAPER_MCL,
        PAPER_SEI,
        PAPER_AUX,
        PAPER_SEI_METRICS,
        PAPER_MCL_METRICS,
        OPENOOD,
        SCALING,
    )
}
