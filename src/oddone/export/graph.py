"""The detector as one module that can be traced: from bytes to verdicts, for any number of images.

It does what `Detector` does, without what depends on values: batches that are split, groups that
are looked for. What it needs to know of the detector are its buffers.
"""

import torch
from jaxtyping import Bool, Float, Float64, Int, UInt8
from torch import Tensor, nn

from oddone.density import Gaussians
from oddone.detector import Calibration, Detector
from oddone.detector.measured_views import MeasuredViews
from oddone.detector.probe import LinearProbe
from oddone.detector.rules import neighbour_scores, sum_of_rules
from oddone.detector.view_embedder import EmbeddedViews
from oddone.export.resizing import central_square
from oddone.fusion import PerView


class DetectorGraph(nn.Module):
    """All that a detector does, by all of its views, as one module."""

    references: Tensor | None

    def __init__(self, detector: Detector, *, fixed_size: bool = False) -> None:
        super().__init__()
        embedder = detector.embedder
        self.size = detector.image_size
        self.fixed_size = fixed_size
        """Whether images come in the encoder's size; otherwise in any, and are resized."""
        self.views, self.space = embedder.views, detector.space
        self.upright = [view for view, pose in enumerate(self.views.poses) if pose == 0]
        self.fuse, self.rules = detector.fuse, detector.rules
        self.network = embedder.network
        self.classifier = embedder.trained.network.classifier
        self.distances = ViewDistances(detector.gaussians, self.views.poses)
        self.probe = None
        if isinstance(detector.classifier, LinearProbe):
            self.probe = ViewProbe(detector.classifier, self.views.poses)
        self.classifies = detector.classifier is not None
        neighbours = any(rule.rule == "neighbours" for rule in self.rules)
        self.register_buffer("references", detector.references.embeddings if neighbours else None)
        self.calibration = None
        if detector.calibration is not None:
            self.calibration = CalibrationGraph(detector.calibration, len(detector.classes))

    def forward(self, images: UInt8[Tensor, "images height width 3"]) -> dict[str, Tensor]:
        """Return score, label and probabilities, and if calibrated p_value and anomalous."""
        return self.decide(self.measure(self.embed(images)))

    def embed(self, images: UInt8[Tensor, "images height width 3"]) -> EmbeddedViews:
        """Return what the network makes of the views of images."""
        square = (
            images.permute(0, 3, 1, 2) if self.fixed_size else central_square(images, self.size)
        )
        shown = self.views(square.float() / 255)
        return EmbeddedViews.of(self.network(shown.flatten(0, 1)), self.classifier, shown.shape[:2])

    def measure(self, embedded: EmbeddedViews) -> MeasuredViews:
        """Return all that rules and labels are made of."""
        first, compared = embedded.embeddings[0], embedded.in_space(self.space)
        return MeasuredViews(
            self.distances(compared),
            self._logits(embedded),
            first,
            None if self.references is None else neighbour_scores(self.references, first),
            compared[self.upright],
        )

    def decide(self, views: MeasuredViews) -> dict[str, Tensor]:
        """Return the outputs by name."""
        by_rule = views.rule_scores(self.rules, self.fuse, self.distances.of_upright)
        scores = sum_of_rules(by_rule, self.rules)
        probabilities = views.probabilities(self.fuse)
        labels = probabilities.argmax(dim=1)
        outputs = {"score": scores, "label": labels, "probabilities": probabilities}
        if self.calibration is not None:
            outputs["p_value"], outputs["anomalous"] = self.calibration(scores, labels)
        return outputs

    def _logits(self, embedded: EmbeddedViews) -> Float[Tensor, "some images classes"] | None:
        if self.probe is not None:
            logits: Tensor = self.probe(embedded.features)
            return logits
        if not self.classifies or embedded.logits is None:
            return None
        return embedded.logits[self.upright]  # the network's own classifier knows no others


class ViewProbe(nn.Module):
    """`LinearProbe.logits`, with the weights of each view's pose."""

    weight: Tensor
    bias: Tensor

    def __init__(self, probe: LinearProbe, poses: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("weight", probe.weight[list(poses)].mT.contiguous())
        self.register_buffer("bias", probe.bias[list(poses)][:, None])

    def forward(
        self, features: Float[Tensor, "views images dim"]
    ) -> Float[Tensor, "views images classes"]:
        return features @ self.weight + self.bias


class ViewDistances(nn.Module):
    """`Gaussians.pose_distances`: whitening is a product with one matrix for each pose."""

    def __init__(self, gaussians: Gaussians, poses: tuple[int, ...]) -> None:
        super().__init__()
        n_classes = len(gaussians.mean) // gaussians.n_poses
        self.tied = len(gaussians.whitening) < len(gaussians.mean)
        self.members = [
            [view for view, of_view in enumerate(poses) if of_view == pose]
            for pose in range(gaussians.n_poses)
        ]
        order = [view for members in self.members for view in members]
        self.order = [order.index(view) for view in range(len(poses))]
        self.poses = nn.ModuleList()
        for pose in range(gaussians.n_poses):
            of_pose = slice(pose * n_classes, (pose + 1) * n_classes)
            mean = gaussians.mean[of_pose]
            if self.tied:
                self.poses.append(TiedDistances(mean, gaussians.whitening[0]))
            else:
                self.poses.append(Distances(mean, gaussians.whitening[of_pose]))

    def forward(self, compared: Float[Tensor, "views images dim"]) -> PerView:
        parts = [
            measure(compared[members])
            for measure, members in zip(self.poses, self.members, strict=True)
        ]
        return torch.cat(parts)[self.order]

    def of_upright(
        self, embeddings: Float[Tensor, "images dim"]
    ) -> Float[Tensor, "images classes"]:
        """Return the distances of upright images to the classes."""
        distances: Tensor = self.poses[0](embeddings[None])[0]
        return distances


class Distances(nn.Module):
    """`Gaussians.distances` to groups with a covariance each."""

    centre: Tensor
    whitening: Tensor
    offset: Tensor

    def __init__(
        self, mean: Float[Tensor, "groups dim"], whitening: Float[Tensor, "groups dim dim"]
    ) -> None:
        super().__init__()
        centre = mean.mean(dim=0)
        self.shape = tuple(mean.shape)
        self.register_buffer("centre", centre)
        self.register_buffer("whitening", whitening.flatten(0, 1).mT.contiguous())
        self.register_buffer("offset", (whitening @ (mean - centre)[:, :, None]).reshape(-1))

    def forward(
        self, compared: Float[Tensor, "views images dim"]
    ) -> Float[Tensor, "views images groups"]:
        white = (compared - self.centre) @ self.whitening - self.offset
        distances: Tensor = white.unflatten(2, self.shape).norm(dim=3)
        return distances


class TiedDistances(nn.Module):
    """`Gaussians.distances` to groups that share a covariance.

    A difference of squares, which takes little memory, is exact enough in doubles.
    """

    centre: Tensor
    whitening: Tensor
    means: Tensor
    squares: Tensor

    def __init__(
        self, mean: Float[Tensor, "groups dim"], whitening: Float[Tensor, "dim dim"]
    ) -> None:
        super().__init__()
        centre = mean.mean(dim=0)
        white_means = ((mean - centre) @ whitening.mT).double()
        self.register_buffer("centre", centre)
        self.register_buffer("whitening", whitening.mT.contiguous())
        self.register_buffer("means", white_means.mT.contiguous())
        self.register_buffer("squares", white_means.square().sum(dim=1))

    def forward(
        self, compared: Float[Tensor, "views images dim"]
    ) -> Float[Tensor, "views images groups"]:
        white = ((compared - self.centre) @ self.whitening).double()
        squares = white.square().sum(dim=2, keepdim=True) + self.squares
        return (squares - 2 * (white @ self.means)).clamp(min=0).sqrt().float()


class CalibrationGraph(nn.Module):
    """`Calibration` as comparisons with all of its scores: p-values, and what is anomalous."""

    scores: Tensor
    labels: Tensor
    shared: Tensor
    images: Tensor
    thresholds: Tensor

    def __init__(self, calibration: Calibration, n_classes: int) -> None:
        super().__init__()
        for name, numbers in calibration_tensors(calibration, n_classes).items():
            self.register_buffer(name, numbers)

    def forward(
        self, scores: Float[Tensor, " images"], labels: Int[Tensor, " images"]
    ) -> tuple[Float64[Tensor, " images"], Bool[Tensor, " images"]]:
        exact = scores.double()
        unknown = ~exact.isfinite()
        exact = exact.masked_fill(unknown, torch.inf)  # odder than all
        mine = self.shared.index_select(0, labels)[:, None] | (self.labels == labels[:, None])
        below = ((self.scores < exact[:, None]) & mine).sum(dim=1)
        images = self.images.index_select(0, labels)
        p_values = (1 + images - below).double() / (1 + images).double()
        thresholds = self.thresholds.index_select(0, labels)
        return p_values, (exact > thresholds) | unknown


def calibration_tensors(calibration: Calibration, n_classes: int) -> dict[str, Tensor]:
    """Return what decides about images: held-out scores, and of which of them each class has."""
    n_scores = len(calibration.scores)
    labels = calibration.labels
    classes = torch.arange(n_classes)
    by_class = [calibration.for_class(label) for label in classes.tolist()]
    images = torch.tensor([len(each.scores) for each in by_class])
    own = torch.tensor([label in calibration.own_classes for label in classes.tolist()])
    return {
        "scores": calibration.scores[None],
        "labels": torch.zeros(1, n_scores, dtype=torch.long) if labels is None else labels[None],
        "shared": ~own,
        "images": images,
        "thresholds": calibration.thresholds(classes),
    }
