"""How a detector is fitted to a trained network."""

from dataclasses import dataclass
from typing import Literal, get_args

from oddone.density import Shrinkage
from oddone.detector.rules import StandardisedRule, check_rules
from oddone.detector.view_embedder import Space
from oddone.encoders import TrainedNetwork
from oddone.errors import SettingsError, check_numbers
from oddone.fusion import Fuse, harmonic
from oddone.transforms import ViewSet, moved_and_mirrored, one_view, rotations_and_mirrors

Classifier = Literal["linear", "network", "nearest"]


@dataclass(frozen=True, kw_only=True)
class DetectorSettings:
    """Which views a detector looks at, where it compares them, and how it fuses them.

    Examples
    --------
    >>> from oddone.transforms import rotations
    >>> paper = DetectorSettings(views=rotations, shrinkage=0.0, classifier="nearest")
    >>> len(paper.views), len(DetectorSettings().views)
    (4, 8)

    """

    views: ViewSet = rotations_and_mirrors
    """The views of an image: by default the paper's 8-way SEI."""
    fuse: Fuse = harmonic
    """How the distances of the views become one; a function of `oddone.fusion`."""
    space: Space = "head"
    """Where distances are measured: "head" is the paper's choice."""
    shrinkage: Shrinkage = "oas"
    """How far covariances are moved towards the identity: "oas", or a share (the paper: 0)."""
    tied: bool = False
    """Whether all Gaussians share one covariance."""
    classifier: Classifier = "linear"
    """What gives the label: a linear probe on the features, the classifier that was trained with
    the network, or the nearest class as in the paper, which is less often right
    (docs/decisions/0008-labels-by-a-linear-probe.md)."""
    rules: tuple[StandardisedRule, ...] = (StandardisedRule("distance"),)
    """What becomes the anomaly score: the distance, as in the paper, or other rules. Where they are
    several, `Detector.standardise` makes them comparable."""

    def __post_init__(self) -> None:
        check_numbers(self)
        check_rules(self.rules, has_classifier=self.classifier != "nearest")
        if self.shrinkage != "oas" and not 0 <= self.shrinkage <= 1:
            raise SettingsError(f"shrinkage={self.shrinkage}: choose 'oas' or a share from 0 to 1")
        for name, choices in (("space", get_args(Space)), ("classifier", get_args(Classifier))):
            if getattr(self, name) not in choices:
                raise SettingsError(
                    f"{name}={getattr(self, name)!r}: choose {' or '.join(map(repr, choices))}"
                )

    @staticmethod
    def suited_to(trained: TrainedNetwork) -> "DetectorSettings":
        """Return settings for what a network was trained to do.

        Poses help only where it has learned to tell them apart. A classifier that was trained alone
        knows the unseen by its energy and by how far the mean of its features over the views is
        from the classes, one beside MCL leaves that to MCL's distance, which is then that of the
        features that both have trained. A network without a head has only features. A head that was
        trained alone was not enough to learn poses well, and has few images: one view, and one
        covariance for all.
        """
        network, task = trained.network, trained.rotations == "task"
        if network.classifier is not None:
            beside_mcl = task and network.pose_classifier is None
            return _BESIDE_MCL if beside_mcl else _CLASSIFIER
        if trained.model.trained_part == "head":
            return DetectorSettings(views=one_view, tied=True)
        return DetectorSettings(
            views=rotations_and_mirrors if task else one_view,
            space="features" if trained.model.head_dim is None else "head",
        )


_CLASSIFIER = DetectorSettings(
    views=moved_and_mirrored,
    space="features",
    tied=True,
    classifier="network",
    rules=(StandardisedRule("mean_embedding"), StandardisedRule("energy")),
)
_BESIDE_MCL = DetectorSettings(space="features", tied=True, classifier="network")
