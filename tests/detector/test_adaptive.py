"""Adaptive SEI: verdicts by as many views as they need."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from detectors import subset
from torch import Tensor

from adaptive import counted_views
from oddone.data import ImageSet
from oddone.detector import Calibration, Detector, LinearProbe
from oddone.detector.adaptive import (
    CHANGED_VERDICTS,
    PartialVerdicts,
    ViewStage,
    all_stages,
    learn_stages,
    possible_stages,
)
from oddone.errors import DataError, SettingsError
from oddone.transforms import (
    ViewSet,
    one_view,
    rotations,
    rotations_and_mirrors,
)
from runs import tiny_source
from small_detector import fitted


def with_margins(detector: Detector, score_margin: float, label_margin: float) -> Detector:
    """Return a detector that may stop after 1, 2 and 4 views, with margins that become smaller."""
    stages = tuple(
        ViewStage(views, 0.9, 0.1, score_margin / divisor, label_margin / divisor)
        for divisor, views in ((1, (0,)), (2, (6,)), (4, (1, 3)))
    )
    return replace(detector, stages=stages)


# Deciding


def decide_slowly(detector: Detector, image: np.ndarray) -> tuple[float, int, int]:
    """Return score, label and number of views of one image, view by view in floats."""
    distances = detector.explain(image[None], neighbours=0)[0].distances.double()
    features = detector.embedder.embed(torch.from_numpy(image[None])).features[:, 0].double()
    assert isinstance(detector.classifier, LinearProbe)
    assert detector.threshold is not None
    seen: list[int] = []
    for stage in (*detector.stages, None):
        seen = list(range(8)) if stage is None else [*seen, *stage.views]
        score = float((len(seen) / (1 / distances[seen]).sum(dim=0)).min())
        log_odds = torch.zeros(3, dtype=torch.float64)
        for view in seen:
            pose = view % 4
            logits = detector.classifier.weight[pose].double() @ features[view]
            logits += detector.classifier.bias[pose]
            log_odds += (logits - logits.logsumexp(0)) / len(seen)
        label = int(log_odds.argmax())
        if stage is None:
            return score, label, 8
        score = 0.9 * score + 0.1
        second, first = sorted(log_odds.tolist())[1:]
        far = abs(score - detector.threshold) > stage.score_margin
        if far and first - second > stage.label_margin:
            return score, label, len(seen)
    raise AssertionError


def test_each_image_is_judged_by_as_many_views_as_it_needs(
    detector: Detector, source: ImageSet
) -> None:
    adaptive = with_margins(detector, score_margin=2.0, label_margin=1.0)
    images = source.images[60:84]
    slow = [decide_slowly(adaptive, image) for image in images]
    assert len({n_views for _, _, n_views in slow}) >= 3  # or the test says little
    with counted_views(adaptive) as counts:
        verdicts = adaptive(images)
    assert sum(counts) == sum(n_views for _, _, n_views in slow)
    for verdict, (score, label, _) in zip(verdicts, slow, strict=True):
        assert verdict.score == pytest.approx(score, rel=1e-4)
        assert verdict.label == label
        assert verdict.anomalous == (score > (adaptive.threshold or 0))


def test_without_margins_one_view_decides(detector: Detector, source: ImageSet) -> None:
    adaptive = with_margins(detector, score_margin=0.0, label_margin=0.0)
    with counted_views(adaptive) as counts:
        verdicts = adaptive(source.images)
    assert sum(counts) == len(source.images)
    upright = replace(detector, embedder=replace(detector.embedder, views=one_view))
    expected = upright(source.images)
    torch.testing.assert_close(verdicts.scores, 0.9 * expected.scores + 0.1, rtol=1e-4, atol=0)
    assert torch.equal(verdicts.labels, expected.labels)


@pytest.mark.parametrize("which", ["score_margin", "label_margin"])
def test_with_infinite_margins_all_views_decide(
    detector: Detector, source: ImageSet, which: str
) -> None:
    margins = {"score_margin": 0.0, "label_margin": 0.0, which: math.inf}
    verdicts, expected = with_margins(detector, **margins)(source.images), detector(source.images)
    torch.testing.assert_close(verdicts.scores, expected.scores, rtol=1e-4, atol=0)
    assert torch.equal(verdicts.labels, expected.labels)


def test_neither_batches_nor_their_order_matter(
    detector: Detector, source: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    adaptive, images = with_margins(detector, 1.0, 1.0), source.images[:24]
    whole = adaptive(images)
    order = np.random.default_rng(0).permutation(24)
    torch.testing.assert_close(
        adaptive(images[order]).scores, whole.scores[order], rtol=1e-4, atol=0
    )
    monkeypatch.setattr("oddone.detector.view_embedder.PIXELS_AT_ONCE", 20 * 16 * 16)
    assert adaptive.batch_size == 20
    torch.testing.assert_close(adaptive(images).scores, whole.scores, rtol=1e-4, atol=0)
    scored = [each.verdict for each in adaptive.score(subset(source, np.arange(24)))]
    assert [verdict.score for verdict in scored if verdict is not None] == pytest.approx(
        whole.scores.tolist(), rel=1e-4
    )


def test_an_explanation_is_by_all_views(detector: Detector, source: ImageSet) -> None:
    adaptive = with_margins(detector, 0.0, 0.0)
    for ours, theirs in zip(
        adaptive.explain(source.images[:3]), detector.explain(source.images[:3]), strict=True
    ):
        assert ours.verdict[:4] == theirs.verdict[:4]
        assert torch.equal(ours.distances, theirs.distances)


def test_no_images_get_no_verdicts(detector: Detector, source: ImageSet) -> None:
    assert len(with_margins(detector, 1.0, 1.0)(source.images[:0])) == len(
        detector(source.images[:0])
    )


@pytest.mark.parametrize(
    ("views", "upright_first", "expected"),
    [
        (rotations_and_mirrors, False, [(0, 1), (2,), (3,), (4, 5), (6, 7)]),
        (rotations_and_mirrors, True, [(0, 4), (1,), (2,), (3, 5), (6, 7)]),
        (rotations, False, [(0, 1), (2,), (3,)]),
    ],
)
def test_each_stage_adds_views_until_all_are_judged(
    views: ViewSet, upright_first: bool, expected: list[tuple[int, ...]]
) -> None:
    added = possible_stages(views, upright_first=upright_first)
    stages = all_stages([ViewStage(some, 1.0, 0.0, 1.0, 1.0) for some in added], views)
    assert [stage.views for stage in stages] == expected


# Learning when to stop


FEW = [(0, 4), (1,)]


def verdicts_of(scores: Tensor, logits: Tensor) -> PartialVerdicts:
    return PartialVerdicts.of(scores, logits.softmax(dim=1))


def some_stages(images: int, seed: int) -> list[PartialVerdicts]:
    """Return what few, more and all views say of images, by ever less noise."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(images, generator=generator)
    logits = 4 * torch.randn(images, 3, generator=generator)
    stages = []
    for noise in (0.5, 0.2, 0.0):
        partial = 2 * scores + 3 if noise else scores  # on a scale of its own
        stages.append(
            verdicts_of(
                partial + noise * torch.randn(images, generator=generator),
                logits + noise * torch.randn(images, 3, generator=generator),
            )
        )
    return stages


def simulate(
    stages: tuple[ViewStage, ...], by_stage: list[PartialVerdicts], calibration: Calibration
) -> tuple[Tensor, Tensor]:
    """Return which images get another verdict than by all views, and which go on to the last."""
    full = by_stage[-1]
    wanted = calibration.anomalous(full.scores, full.labels)
    thresholds = calibration.thresholds(torch.arange(3))
    changed, going_on = torch.zeros(len(wanted), dtype=torch.bool), torch.ones(len(wanted)).bool()
    for stage, partial in zip(stages, by_stage[:-1], strict=True):
        expected = stage.expected(partial)
        stops = going_on & stage.decided(expected, thresholds)
        other = calibration.anomalous(expected.scores, expected.labels) != wanted
        changed |= stops & (other | (expected.labels != full.labels))
        going_on &= ~stops
    return changed, going_on


@pytest.mark.parametrize("per_class", [False, True])
def test_few_verdicts_change_on_the_images_seen_and_on_new_ones(per_class: bool) -> None:
    seen, new = some_stages(8000, seed=0), some_stages(40_000, seed=1)
    labels = seen[-1].labels if per_class else None
    calibration = Calibration.of(seen[-1].scores, 0.05, labels)
    stages = learn_stages(FEW, seen, calibration)
    changed, going_on = simulate(stages, seen, calibration)
    assert 0 < changed.sum() < 8001 * CHANGED_VERDICTS
    assert going_on.double().mean() < 0.5
    changed, _ = simulate(stages, new, calibration)
    assert changed.double().mean() < 1.4 * CHANGED_VERDICTS  # three deviations of both samples


def test_the_margins_are_the_smallest_that_keep_the_promise() -> None:
    """With one stage, margins a little smaller change one verdict too many."""
    seen = [some_stages(4000, seed=2)[0], some_stages(4000, seed=2)[2]]
    calibration = Calibration.of(seen[-1].scores, 0.05)
    (stage,) = learn_stages(FEW[:1], seen, calibration)
    rank = math.floor(4001 * CHANGED_VERDICTS)
    assert simulate((stage,), seen, calibration)[0].sum() == rank - 1
    smaller = stage._replace(
        score_margin=stage.score_margin * (1 - 1e-9), label_margin=stage.label_margin * (1 - 1e-9)
    )
    assert simulate((smaller,), seen, calibration)[0].sum() == rank


def test_scores_of_few_views_are_put_on_the_scale_of_all_views() -> None:
    """The line is that of least squares: what it leaves over has no mean and no trend."""
    seen = some_stages(1000, seed=4)
    stages = learn_stages(FEW, seen, Calibration.of(seen[-1].scores, 0.05))
    for stage, partial in zip(stages, seen[:-1], strict=True):
        left_over = seen[-1].scores - stage.expected(partial).scores
        assert float(left_over.mean()) == pytest.approx(0, abs=1e-9)
        assert float((left_over * partial.scores).mean()) == pytest.approx(0, abs=1e-9)
        assert stage.slope == pytest.approx(0.5, rel=0.1)


def test_views_that_say_what_all_views_say_need_no_margin() -> None:
    full = some_stages(1000, seed=0)[-1]
    (stage,) = learn_stages(FEW[:1], [full, full], Calibration.of(full.scores, 0.05))
    assert stage.slope == pytest.approx(1)
    assert stage.offset == pytest.approx(0, abs=1e-12)
    assert stage.score_margin == stage.label_margin == 0


def test_neither_the_order_of_images_nor_the_scale_of_a_stage_matters() -> None:
    seen = some_stages(1000, seed=3)
    calibration = Calibration.of(seen[-1].scores, 0.05)
    stages = learn_stages(FEW, seen, calibration)
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    shuffled = [PartialVerdicts(*(each[order] for each in stage)) for stage in seen]
    for ours, theirs in zip(learn_stages(FEW, shuffled, calibration), stages, strict=True):
        assert ours[1:] == pytest.approx(theirs[1:])
    scaled = [seen[0]._replace(scores=10 * seen[0].scores - 4), *seen[1:]]
    other = learn_stages(FEW, scaled, calibration)
    assert other[0][3:] == pytest.approx(stages[0][3:])
    torch.testing.assert_close(
        other[0].expected(scaled[0]).scores, stages[0].expected(seen[0]).scores
    )


def test_a_single_class_is_as_sure_as_can_be_and_equal_scores_are_no_division_by_zero() -> None:
    alone = PartialVerdicts.of(torch.zeros(500), torch.ones(500, 1))
    assert (alone.label_margins > 80).all()
    (stage,) = learn_stages(FEW[:1], [alone, alone], Calibration.of(alone.scores, 0.05))
    assert stage == ViewStage((0, 4), 1.0, 0.0, 0.0, 0.0)


def test_a_score_that_is_no_number_decides_nothing() -> None:
    expected = PartialVerdicts.of(torch.tensor([math.nan, 5.0]), torch.tensor([[0.9, 0.1]] * 2))
    decided = ViewStage((0,), 1.0, 0.0, 1.0, 1.0).decided(expected, torch.zeros(2).double())
    assert decided.tolist() == [False, True]


@pytest.mark.usefixtures("as_shipped")
def test_too_few_images_to_learn_from_are_refused() -> None:
    seen = some_stages(398, seed=0)
    calibration = Calibration.of(seen[-1].scores, 0.05)
    with pytest.raises(DataError, match="398 images are too few .* calibrate with 399 at least"):
        learn_stages(FEW, seen, calibration)


# In a detector, and in its file


@pytest.fixture(scope="module")
def adaptive(detector: Detector) -> Detector:
    return detector.calibrate(tiny_source(images=450, seed=7), adaptive=True)


def test_a_calibration_learns_when_to_stop_and_changes_no_threshold(
    detector: Detector, adaptive: Detector, tmp_path: Path
) -> None:
    plain = detector.calibrate(tiny_source(images=450, seed=7))
    assert plain.stages == ()
    assert [stage.views for stage in adaptive.stages] == [(0, 1), (2,), (3,), (4, 5)]
    assert adaptive.threshold == pytest.approx(plain.threshold, rel=1e-4)
    new = tiny_source(images=300, seed=8).images
    with counted_views(adaptive) as counts:
        ours = adaptive(new)
    theirs = plain(new)
    assert 2 * 300 <= sum(counts) < 8 * 300
    changed = (ours.labels != theirs.labels) | (ours.anomalous != theirs.anomalous)
    assert changed.sum() <= 5  # of 300, one is expected
    assert "8 views as needed" in repr(adaptive)
    adaptive.save(tmp_path / "a.oddone")
    loaded = Detector.load(tmp_path / "a.oddone")
    assert loaded.stages == adaptive.stages
    assert torch.equal(loaded(new).scores, ours.scores)


def test_another_calibration_or_scale_of_rules_forgets_the_stages(adaptive: Detector) -> None:
    few = tiny_source(images=60, seed=7)
    assert adaptive.calibrate(few, false_alarms=0.1).stages == ()
    assert adaptive.standardise(few).stages == ()


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_calibration_without_images_is_refused(detector: Detector, adaptive: bool) -> None:
    with pytest.raises(DataError, match="0 were given"):
        detector.calibrate(subset(tiny_source(), np.arange(0)), adaptive=adaptive)


@pytest.mark.usefixtures("as_shipped")
def test_what_cannot_be_adaptive_is_refused(adaptive: Detector) -> None:
    for views in (one_view, ViewSet("pair", (0, 0), (False, True))):
        with pytest.raises(SettingsError, match=rf"looks at {len(views)} of the views .* 2 are"):
            fitted(views=views).calibrate(tiny_source(images=60, seed=1), adaptive=True)
    with pytest.raises(SettingsError, match="by a threshold, and there is none"):
        replace(adaptive, calibration=None)
    for added in ([(0,), (0, 1)], [(1,)], [()], [(0, 8)], [tuple(range(8))]):
        stages = tuple(ViewStage(views, 1.0, 0.0, 1.0, 1.0) for views in added)
        with pytest.raises(SettingsError, match=r"do not go from the first towards all 8"):
            replace(adaptive, stages=stages)
    with pytest.raises(SettingsError, match="not all are numbers"):
        replace(adaptive, stages=(ViewStage((0,), math.nan, 0.0, 1.0, 1.0),))
