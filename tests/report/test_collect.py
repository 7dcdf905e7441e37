"""What is collected of a detector, and the figures made of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from figures_looked_at import check_layout, keys_of
from PIL import Image

from oddone.data import ImageSet
from oddone.detector import Detector
from oddone.errors import DataError
from oddone.evaluation import evaluate
from oddone.report import collect as module
from oddone.report.collect import (
    ReportData,
    collect_report_data,
    relative_name,
    resize_both_ways,
)
from oddone.report.figures import (
    TERMS,
    Illustration,
    illustrate_artefacts,
    illustrate_detector,
    illustrate_embeddings,
)
from oddone.wording import format_score
from runs import tiny_source
from small_detector import fitted

OVER_PICTURES = {"confusion"}  # its numbers stand on its squares


@pytest.fixture(scope="module")
def detector() -> Detector:
    return fitted()


@pytest.fixture(scope="module")
def known() -> ImageSet:
    """Return new images of the classes, some with a wrong label."""
    source = tiny_source(images=50, seed=7)
    labels = source.labels.copy()
    labels[::10] = (labels[::10] + 1) % 3
    return replace(source, labels=labels)


@pytest.fixture(scope="module")
def oods() -> dict[str, ImageSet]:
    """Return images of the classes, which are easily taken for normal, and noise."""
    noise = np.random.default_rng(0).integers(0, 256, (20, 3, 16, 16), dtype=np.uint8)
    nothing = np.full(20, -1)
    paths = [f"noise[{image}]" for image in range(20)]
    return {
        "alike": tiny_source(images=30, seed=8),
        "noise": ImageSet(noise, nothing, (), paths, "noise"),
    }


@pytest.fixture(scope="module")
def report_data(detector: Detector, known: ImageSet, oods: dict[str, ImageSet]) -> ReportData:
    return collect_report_data("tiny", detector, known, oods, seed=0)


HISTORY = [
    {"step": step, "loss": 9.0 / step, "terms": {"ccm": 4.0, "spa": 3.0}, "learning_rate": 0.1}
    for step in range(1, 6)
]


def test_the_numbers_are_those_of_evaluate(
    detector: Detector, known: ImageSet, oods: dict[str, ImageSet], report_data: ReportData
) -> None:
    expected = evaluate(detector, known, oods)
    assert report_data.evaluation.accuracy == expected.accuracy
    assert report_data.evaluation.oods["noise"].metrics == pytest.approx(
        expected.oods["noise"].metrics, abs=1e-6
    )
    verdicts = detector(known.images)
    np.testing.assert_allclose(report_data.ind.scores, verdicts.scores, rtol=1e-5)
    np.testing.assert_array_equal(report_data.ind.labels, verdicts.labels)
    assert not report_data.seen_in_training


def test_progress_is_told_of_each_set(detector: Detector, known: ImageSet) -> None:
    told: list[tuple[int, int, str]] = []
    collect_report_data(
        "tiny", detector, known, {}, seed=0, progress=lambda *done: told.append(done)
    )
    assert told[-1] == (50, 50, "tiny: test images")


def test_the_sample_holds_all_of_a_small_set_and_some_of_a_large_one(
    detector: Detector,
    known: ImageSet,
    oods: dict[str, ImageSet],
    report_data: ReportData,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert np.bincount(report_data.sample.labels + 1)[0] == 50
    assert (report_data.sample.labels >= 0).sum() == 50
    upright = detector.embedder.embed(torch.from_numpy(known.images)).embeddings[0]
    np.testing.assert_allclose(report_data.sample.embeddings[:50], upright, atol=1e-5)
    monkeypatch.setattr(module, "MAX_IND_POINTS", 9)
    monkeypatch.setattr(module, "MAX_OOD_POINTS", 8)
    few = collect_report_data("tiny", detector, known, oods, seed=0).sample
    assert np.bincount(few.labels + 1).tolist() == [8, 3, 3, 3]


def test_misses_are_the_least_odd_images_that_pass(
    detector: Detector, oods: dict[str, ImageSet], report_data: ReportData
) -> None:
    passed = {
        name: np.sort(judged.scores[judged.scores <= detector.threshold])
        for name, judged in report_data.oods.items()
    }
    assert len(passed["alike"]) > 5
    first = report_data.missed[0]
    least = int(report_data.oods["alike"].scores.argmin())
    np.testing.assert_array_equal(
        first.image.picture, oods["alike"].images[least].transpose(1, 2, 0)
    )
    label = report_data.oods["alike"].labels[least]
    assert (first.image.name, first.image.note) == ("alike", f"→ {detector.classes[label]}")
    assert len(first.neighbours) == 3
    shown = sum(min(5, len(scores)) for scores in passed.values())
    assert len(report_data.missed) == min(5, shown)


def test_mistakes_have_another_name_than_their_label(
    known: ImageSet, report_data: ReportData, detector: Detector
) -> None:
    wrong = np.flatnonzero(report_data.ind.labels.numpy() != known.labels)
    assert len(wrong) >= 3
    least = wrong[report_data.ind.scores[wrong].argmin()]
    first = report_data.misclassified[0].image
    np.testing.assert_array_equal(first.picture, known.images[least].transpose(1, 2, 0))
    assert first.name == known.classes[known.labels[least]]
    assert first.note == f"→ {detector.classes[report_data.ind.labels[least]]}"


def test_false_alarms_are_the_most_anomalous_test_images(
    known: ImageSet, report_data: ReportData, detector: Detector
) -> None:
    scores = report_data.ind.scores
    alarms = int((scores > detector.threshold).sum())
    assert alarms >= 1
    assert len(report_data.false_alarms) == min(5, alarms)
    most = int(scores.argmax())
    first = report_data.false_alarms[0]
    np.testing.assert_array_equal(first.image.picture, known.images[most].transpose(1, 2, 0))
    assert first.image.name == known.classes[known.labels[most]]
    assert first.image.note == f"score {format_score(scores[most].item())}"
    assert first.file_name == known.paths[most]


def test_a_false_alarm_without_a_label_is_called_what_it_looks_like(
    known: ImageSet, report_data: ReportData, detector: Detector
) -> None:
    unlabelled = replace(known, labels=np.full(50, -1), classes=())
    bare = collect_report_data("bare", detector, unlabelled, {}, seed=0)
    look = detector.classes[report_data.ind.labels[report_data.ind.scores.argmax()]]
    assert bare.false_alarms[0].image.name == f"→ {look}"


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/a/b/cat/1.jpg", "/a/b/dog/1.jpg"], ["cat/1.jpg", "dog/1.jpg"]),
        (["/a/cat/1.jpg", "/a/cat/10.jpg"], ["1.jpg", "10.jpg"]),
        (["/a/b/only.jpg"], ["only.jpg"]),
        (["cifar10:data/x#test[1]", "cifar10:data/x#test[2]"], ["x#test[1]", "x#test[2]"]),
        (["fashion:known[1]", "fashion:known[2]"], ["fashion:known[1]", "fashion:known[2]"]),
        (["a.jpg", "/b.jpg"], ["a.jpg", "/b.jpg"]),
    ],
)
def test_file_names_leave_out_the_folders_that_all_share(
    paths: list[str], names: list[str]
) -> None:
    assert [relative_name(paths, index) for index in range(len(paths))] == names


def test_typical_images_have_the_median_score(report_data: ReportData) -> None:
    test, odd = report_data.typical_images
    assert test.score == pytest.approx(np.sort(report_data.ind.scores)[25], rel=1e-4)
    assert odd.score == pytest.approx(np.sort(report_data.oods["alike"].scores)[15], rel=1e-4)
    assert (len(test.views), odd.heading) == (8, "A typical image of alike")


def named(report_data: ReportData, history: list[dict[str, object]]) -> dict[str, Illustration]:
    return {
        illustration.name: illustration
        for illustration in illustrate_detector(report_data, history)
    }


def test_every_figure_is_made_and_has_words(report_data: ReportData) -> None:
    figures = named(report_data, HISTORY)
    assert list(figures) == [
        "roc", "precision-recall", "distributions", "confusion", "curves", "views", "missed",
        "false-alarms", "mistaken",
    ]  # fmt: skip
    for name in ("missed", "false-alarms", "mistaken"):
        assert len(figures[name].file_names) > 0
    for illustration in figures.values():
        assert all((illustration.heading, illustration.caption, illustration.alt_text))
        check_layout(illustration.figure, over_pictures=illustration.name in OVER_PICTURES)
    auroc = report_data.evaluation.oods["noise"].metrics.auroc
    assert f"noise {auroc:.1%}" in figures["roc"].alt_text
    assert keys_of(figures["curves"].figure) == ["loss", "ccm", "spa"]


def test_the_terms_of_the_loss_are_explained_where_it_has_them(report_data: ReportData) -> None:
    assert all(
        meaning in named(report_data, HISTORY)["curves"].caption for meaning in TERMS.values()
    )
    plain = [{**line, "terms": {}} for line in HISTORY]
    caption = named(report_data, plain)["curves"].caption
    assert caption.endswith("longer training would help.")


def test_thresholds_of_classes_are_no_line_in_a_figure_but_decide_all_the_same(
    detector: Detector, known: ImageSet, oods: dict[str, ImageSet]
) -> None:
    per_class = detector.calibrate(
        tiny_source(images=300, seed=5), false_alarms=0.3, per_class=True
    )
    shown = collect_report_data("tiny", per_class, known, oods, seed=0)
    figures = named(shown, HISTORY)
    assert "threshold" not in keys_of(figures["distributions"].figure)
    assert figures["missed"].heading == "OOD images taken for normal"
    assert shown.evaluation.false_alarms == shown.ind.anomalous.double().mean()
    assert len(set(per_class.thresholds)) == 3


def test_what_is_not_known_is_not_drawn(detector: Detector, known: ImageSet) -> None:
    unlabelled = replace(known, labels=np.full(50, -1), classes=())
    bare = collect_report_data("bare", replace(detector, calibration=None), unlabelled, {}, seed=0)
    figures = named(bare, [])
    assert list(figures) == ["distributions", "views"]
    assert keys_of(figures["distributions"].figure) == ["test images"]


def test_with_one_class_no_label_is_judged() -> None:
    known = tiny_source(images=50, classes=1, seed=7)
    alone = collect_report_data("alone", fitted(classes=1), known, {}, seed=0)
    assert (alone.evaluation.accuracy, alone.misclassified) == (None, [])
    figures = named(alone, [])
    assert "confusion" not in figures
    assert keys_of(figures["distributions"].figure) == ["test images", "threshold"]


def test_embeddings_of_several_detectors_share_the_classes(report_data: ReportData) -> None:
    turned = report_data._replace(name="other", classes=report_data.classes[::-1])
    (tsne,) = illustrate_embeddings([report_data, turned], seed=0)
    assert (tsne.wide, keys_of(tsne.figure)) == (True, ["class 0", "class 1", "class 2", "OOD"])
    ours, theirs = (
        {line.get_color(): len(line.get_xdata()) for line in axes.lines}
        for axes in tsne.figure.axes
    )
    assert list(ours.values())[1:] == list(theirs.values())[:0:-1]


def test_too_few_images_have_no_plane(report_data: ReportData) -> None:
    few = report_data.sample._replace(
        embeddings=report_data.sample.embeddings[:3], labels=report_data.sample.labels[:3]
    )
    assert list(illustrate_embeddings([report_data._replace(sample=few)], seed=0)) == []


def test_pictures_are_resized_both_ways_and_judged(detector: Detector, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for name in range(3):
        pixels = generator.integers(0, 256, (100, 80, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    (tmp_path / "broken.png").write_text("meow")
    resized = resize_both_ways(detector, tmp_path)
    assert len(resized) == 3
    for pair in resized:  # an average of noise is grey; a pixel of it is as strong as before
        assert 3 * pair.antialiased.picture.std() < pair.aliased.picture.std()
        assert pair.antialiased.score != pair.aliased.score
    illustration = illustrate_artefacts(resized)
    assert illustration.alt_text.startswith("3 pictures")


def test_a_folder_without_pictures_is_told(detector: Detector, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_text("meow")
    with pytest.raises(DataError, match="holds no picture that can be read"):
        resize_both_ways(detector, tmp_path)
    with pytest.raises(DataError, match=r"nowhere is no folder"):
        resize_both_ways(detector, tmp_path / "nowhere")
