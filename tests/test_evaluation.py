import copy
import csv
import io
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import oracles
from oddone.data import ImageSet, load
from oddone.detector import Detector
from oddone.encoders import load_network
from oddone.errors import DataError, DataWarning, SettingsError
from oddone.evaluation import (
    ClassResult,
    Evaluation,
    OODClassResult,
    ScoredSet,
    accuracy_where_labelled,
    as_class_csv,
    as_json,
    as_openood_csv,
    evaluate,
    evaluate_scores,
    evaluate_verdicts,
    labels_by_name,
    ood_metrics,
    worst_classes,
    worst_ood_classes,
)
from oddone.fusion import decide
from oddone.training import RunDirectory, train_network
from oddone.verdicts import Verdicts
from runs import tiny_settings, tiny_source

scores = st.lists(st.sampled_from([-1.5, 0.0, 0.1, 3.0]), min_size=1, max_size=30)


# --- From scores to an evaluation -------------------------------------------------------------


@given(scores, scores)
def test_every_metric_gets_the_two_sides_in_the_right_order(
    ind: list[float], ood: list[float]
) -> None:
    ours = ood_metrics(ind, ood)
    assert ours._asdict() == pytest.approx(
        {
            "auroc": oracles.auroc(ind, ood),
            "fpr_at_95_ind": oracles.fpr_at_95_ind(ind, ood),
            "fpr_at_95_ood": oracles.fpr_at_95_ood(ind, ood),
            "aupr_in": oracles.average_precision([-i for i in ind], [-o for o in ood]),
            "aupr_out": oracles.average_precision(ood, ind),
        }
    )


OOD_SCORES = {
    "easy": torch.tensor([7.0, 8.0]),
    "hard": torch.tensor([-1.0]),
    "middling": torch.tensor([1.5, 2.5, 9.0, 9.0]),
}


def three_sets(threshold: float | None = 2.5) -> Evaluation:
    """Return the evaluation of scores 0..3 against OOD sets that are easy, hard and in between."""
    return evaluate_scores(
        torch.arange(4.0),
        OOD_SCORES,
        accuracy=0.75,
        threshold=threshold,
        averages={"near": ("middling", "hard"), "far": ("easy",)},
    )


def test_anomalous_images_are_those_above_the_threshold() -> None:
    evaluation = three_sets()
    assert (evaluation.images, evaluation.false_alarms) == (4, 1 / 4)
    assert {name: ood.detected for name, ood in evaluation.oods.items()} == {
        "easy": 1,
        "hard": 0,
        "middling": 2 / 4,  # the score 2.5 is not above 2.5
    }


def test_without_a_threshold_no_share_is_called_anomalous() -> None:
    evaluation = three_sets(threshold=None)
    assert evaluation.false_alarms is None
    assert all(ood.detected is None for ood in evaluation.oods.values())
    assert all(average.detected is None for average in evaluation.averages.values())
    assert evaluation.oods["easy"].metrics == three_sets().oods["easy"].metrics


def test_in_an_average_every_set_counts_the_same_however_large() -> None:
    evaluation = three_sets()
    near, middling, hard = (
        evaluation.averages["near"],
        evaluation.oods["middling"],
        evaluation.oods["hard"],
    )
    assert near.members == ("middling", "hard")
    assert near.detected == 1 / 4
    for mean, one, other in zip(near.metrics, middling.metrics, hard.metrics, strict=True):
        assert mean == pytest.approx((one + other) / 2)
    assert evaluation.averages["far"].metrics == evaluation.oods["easy"].metrics


def test_a_set_that_is_named_twice_counts_once() -> None:
    odd = {"a": torch.tensor([2.0]), "b": torch.tensor([0.0])}
    ones, twice = (
        evaluate_scores(torch.ones(1), odd, averages={"near": members}) for members in ("ab", "aab")
    )
    assert ones.averages == twice.averages


def test_no_ood_set_leaves_the_accuracy_and_the_false_alarms() -> None:
    assert evaluate_scores(torch.arange(4.0), {}, accuracy=0.5, threshold=0.0) == Evaluation(
        4, 0.5, 3 / 4, {}, {}
    )


def test_evaluations_of_scores_can_be_sent_to_other_processes() -> None:
    evaluation = evaluate_scores(torch.arange(4.0), {"odd": torch.arange(3.0, 6.0)})
    assert pickle.loads(pickle.dumps(evaluation)) == copy.deepcopy(evaluation) == evaluation  # noqa: S301


def test_a_set_without_images_is_named() -> None:
    with pytest.raises(DataError, match="^empty: there are 0 images"):
        evaluate_scores(torch.ones(3), {"full": torch.ones(2), "empty": torch.ones(0)})
    with pytest.raises(DataError, match="^test images: there are 0 images"):
        evaluate_scores(torch.ones(0), {})


@pytest.mark.parametrize(
    ("averages", "message"),
    [
        ({"near": ("svnh",)}, "near: there is no OOD set 'svnh'; did you mean 'svhn'?"),
        ({"far": ("svhn", "x")}, "far: there is no OOD set 'x'; the OOD sets are: svhn"),
        ({"far": ()}, "the average 'far' has 0 OOD sets"),
    ],
)
def test_a_wrong_average_is_refused(averages: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(SettingsError, match=f"^{message.replace('?', '[?]')}"):
        evaluate_scores(torch.ones(1), {"svhn": torch.ones(1)}, averages=averages)


def test_an_average_without_any_ood_set_is_refused() -> None:
    with pytest.raises(SettingsError, match="the OOD sets are: none"):
        evaluate_scores(torch.ones(1), {}, averages={"near": ("svhn",)})


# --- Files ------------------------------------------------------------------------------------


def test_json_holds_every_number() -> None:
    evaluation = three_sets()
    content = json.loads(json.dumps(as_json(evaluation)))
    assert (content["images"], content["accuracy"], content["false_alarms"]) == (4, 0.75, 0.25)
    assert content["oods"]["middling"] == {
        "images": 4,
        "detected": 0.5,
        **evaluation.oods["middling"].metrics._asdict(),
        "taken_for": {},
        "classes": {},
    }
    assert content["averages"]["near"]["members"] == ["middling", "hard"]
    assert content["averages"]["near"]["detected"] == 0.25
    assert content["averages"]["near"]["auroc"] == evaluation.averages["near"].metrics.auroc


def test_csv_is_what_openood_writes() -> None:
    """OpenOOD: near sets, their mean, far sets, their mean; lines end as Python's csv has it.

    Four images (IND) above the only OOD one: from the highest score down, precision is 0 until the
    OOD image makes it 1/5, at once at recall 1. From the lowest up, IND images come second to
    fifth, at precisions 1/2, 2/3, 3/4 and 4/5.
    """
    lines = as_openood_csv(three_sets()).split("\r\n")
    assert lines[0] == "dataset,FPR@95,AUROC,AUPR_IN,AUPR_OUT,ACC"
    assert [line.split(",")[0] for line in lines[1:]] == [
        "middling", "hard", "nearood", "easy", "farood", "",
    ]  # fmt: skip
    assert lines[4] == "easy,0.00,100.00,100.00,100.00,75.00"
    of_ind = ((0 + 1 / 2) / 2 + (1 / 2 + 2 / 3) / 2 + (2 / 3 + 3 / 4) / 2 + (3 / 4 + 4 / 5) / 2) / 4
    assert lines[2] == f"hard,100.00,0.00,{of_ind:.2%},10.00,75.00".replace("%", "")


def test_csv_has_openoods_aupr_and_json_average_precision() -> None:
    evaluation = three_sets()
    rows = {row["dataset"]: row for row in csv.DictReader(io.StringIO(as_openood_csv(evaluation)))}
    ind = torch.arange(4.0)
    expected = {
        name: (
            oracles.aupr_trapezoid((-ind).tolist(), (-ood).tolist()),
            oracles.aupr_trapezoid(ood.tolist(), ind.tolist()),
        )
        for name, ood in OOD_SCORES.items()
    }
    expected["nearood"] = tuple(
        (one + other) / 2 for one, other in zip(expected["middling"], expected["hard"], strict=True)
    )
    for name, (aupr_in, aupr_out) in expected.items():
        assert rows[name]["AUPR_IN"] == f"{100 * aupr_in:.2f}"
        assert rows[name]["AUPR_OUT"] == f"{100 * aupr_out:.2f}"
    middling = as_json(evaluation)["oods"]["middling"]
    assert middling["aupr_out"] == pytest.approx(
        oracles.average_precision(OOD_SCORES["middling"].tolist(), ind.tolist())
    )
    assert f"{100 * middling['aupr_out']:.2f}" != rows["middling"]["AUPR_OUT"]


def test_csv_has_openoods_names_of_the_sets() -> None:
    oods = dict.fromkeys(("tiny_imagenet", "textures", "svhn"), torch.ones(2))
    averages = {"near": ("tiny_imagenet",), "far": ("textures", "svhn")}
    evaluation = evaluate_scores(torch.zeros(2), oods, averages=averages)
    rows = csv.DictReader(io.StringIO(as_openood_csv(evaluation)))
    assert [row["dataset"] for row in rows] == ["tin", "nearood", "texture", "svhn", "farood"]
    assert list(as_json(evaluation)["oods"]) == ["tiny_imagenet", "textures", "svhn"]


def test_csv_has_openoods_fpr_with_95_percent_of_ood_detected() -> None:
    """Of 20 OOD images one may slip through; of 4 IND images one is above the others."""
    ind, ood = torch.tensor([0.0, 0.0, 0.0, 5.0]), torch.tensor([-1.0] + [3.0] * 19)
    (row,) = csv.DictReader(io.StringIO(as_openood_csv(evaluate_scores(ind, {"odd": ood}))))
    assert row["FPR@95"] == "25.00"
    assert ood_metrics(ind, ood).fpr_at_95_ind == 1


def test_csv_without_averages_and_accuracy_has_the_sets_and_a_gap() -> None:
    odd = {"b": torch.ones(1), "a, quoted": torch.ones(1)}
    rows = list(csv.DictReader(io.StringIO(as_openood_csv(evaluate_scores(torch.zeros(1), odd)))))
    assert [row["dataset"] for row in rows] == ["b", "a, quoted"]
    assert [row["ACC"] for row in rows] == ["", ""]


# --- Labels -----------------------------------------------------------------------------------


def labelled(labels: list[int], *classes: str) -> ImageSet:
    images = np.zeros((len(labels), 3, 2, 2), dtype=np.uint8)
    return ImageSet(images, np.array(labels, dtype=np.int64), classes, [""] * len(labels), "")


def test_labels_are_matched_by_the_names_of_their_classes() -> None:
    source = labelled([0, 1, 1, 0], "dog", "cat")  # another order, and no bird
    assert labels_by_name(source, ("bird", "cat", "dog")).tolist() == [2, 1, 1, 2]


def test_images_without_a_label_stay_without() -> None:
    assert labels_by_name(labelled([-1, 0, -1], "dog"), ("cat", "dog")).tolist() == [-1, 1, -1]
    assert labels_by_name(labelled([-1, -1]), ("cat", "dog")).tolist() == [-1, -1]


def test_an_unknown_class_that_no_image_shows_does_no_harm() -> None:
    source = labelled([1, 1], "unicorn", "cat")
    assert labels_by_name(source, ("cat", "dog")).tolist() == [0, 0]


def test_an_unknown_class_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(
        DataError, match="2 of 3 classes .* such as 'Dog' .did you mean 'dog'..; rename"
    ):
        labels_by_name(labelled([0, 1, 2], "Dog", "cat", "xyz"), ("cat", "dog"))


def test_accuracy_counts_only_images_with_a_label() -> None:
    predicted = torch.tensor([0, 1, 2, 2])
    assert accuracy_where_labelled(predicted, np.array([0, -1, 2, 1])) == 2 / 3
    assert accuracy_where_labelled(predicted, np.full(4, -1)) is None


# --- Class by class ---------------------------------------------------------------------------


CLASSES = ("ant", "bee", "cow")


def verdicts(labels: list[int], scores: list[float], threshold: float | None = None) -> Verdicts:
    distances = torch.tensor(scores).float()[:, None]
    return replace(decide(distances, threshold), labels=torch.tensor(labels))


def by_class(threshold: float | None = 4.5) -> Evaluation:
    """Return the evaluation of seven test images, and of OOD images with and without classes."""
    known = labelled([0, 0, 0, 0, 1, 1, -1], "ant", "bee", "cow")  # no cow is shown
    odd = labelled([1, 0, 1, -1], "x", "y")
    return evaluate_verdicts(
        ScoredSet(known, verdicts([0, 0, 2, 1, 1, 1, 1], [1, 2, 3, 4, 5, 6, 7], threshold)),
        {
            "odd": ScoredSet(odd, verdicts([2, 1, 0, 2], [5.5, 0.5, 9, 9], threshold)),
            "plain": ScoredSet(labelled([-1, -1]), verdicts([1, 1], [4.5, 8], threshold)),
        },
        classes=CLASSES,
    )


def test_each_class_has_its_recall_precision_and_false_alarms() -> None:
    """Of three labelled images that are called bee two are bees; the one without a label is no
    mistake and no hit."""
    assert by_class().classes == {
        "ant": ClassResult(4, 2 / 4, 1.0, 0.0),
        "bee": ClassResult(2, 1.0, 2 / 3, 1.0),
    }


@given(
    st.lists(
        st.tuples(st.integers(-1, 2), st.integers(0, 2), st.sampled_from([0.0, 1.0])), min_size=1
    )
)
def test_the_numbers_of_classes_make_up_those_of_all_images(
    images: list[tuple[int, int, float]],
) -> None:
    labels, predicted, scores = map(list, zip(*images, strict=True))
    scored = ScoredSet(labelled(labels, *CLASSES), verdicts(predicted, scores, threshold=0.5))
    evaluation = evaluate_verdicts(scored, {}, classes=CLASSES)
    truth = [CLASSES[label] for label in labels if label >= 0]
    assert sum(result.images for result in evaluation.classes.values()) == len(truth)
    if truth:
        hits = sum(result.images * result.recall for result in evaluation.classes.values())
        assert evaluation.accuracy == pytest.approx(hits / len(truth))
    for name, result in evaluation.classes.items():
        guesses = [
            CLASSES[label]
            for label, guess in zip(labels, predicted, strict=True)
            if label >= 0 and CLASSES[guess] == name
        ]
        expected = guesses.count(name) / len(guesses) if guesses else None
        assert result.precision == expected


def test_a_single_class_that_every_image_gets_is_no_achievement() -> None:
    scored = ScoredSet(labelled([0, 0, 0], "good"), verdicts([0, 0, 0], [0.0, 1.0, 2.0], 1.5))
    evaluation = evaluate_verdicts(scored, {"bad": scored}, classes=["good"])
    assert (evaluation.accuracy, evaluation.classes) == (None, {})
    assert evaluation.false_alarms == pytest.approx(1 / 3)
    assert evaluation.oods["bad"].detected == pytest.approx(1 / 3)
    other = ScoredSet(labelled([0], "good images"), verdicts([0], [0.0]))
    with pytest.raises(DataError, match="'good images'"):
        evaluate_verdicts(other, {}, classes=["good"])


def test_a_class_that_nothing_is_taken_for_has_no_precision() -> None:
    scored = ScoredSet(labelled([0, 1], *CLASSES), verdicts([1, 1], [0.0, 0.0]))
    result = evaluate_verdicts(scored, {}, classes=CLASSES).classes["ant"]
    assert result == ClassResult(1, 0.0, None, None)


def test_each_class_of_an_ood_set_is_told_from_all_test_images() -> None:
    odd = by_class().oods["odd"]
    assert odd.classes == {
        "x": OODClassResult(1, 0.0, 0.0, {"bee": 1.0}),
        "y": OODClassResult(2, 1.0, (5 + 7) / (7 * 2), {"ant": 0.5, "cow": 0.5}),
    }
    assert odd.images == 4  # one of them without a label


def test_what_ood_images_are_taken_for_begins_with_the_most() -> None:
    evaluation = by_class()
    assert list(evaluation.oods["odd"].taken_for.items()) == [
        ("cow", 0.5), ("ant", 0.25), ("bee", 0.25),
    ]  # fmt: skip
    assert evaluation.oods["plain"].taken_for == {"bee": 1.0}
    assert evaluation.oods["plain"].classes == {}


def test_without_a_threshold_no_class_has_false_alarms() -> None:
    evaluation = by_class(threshold=None)
    assert {result.false_alarms for result in evaluation.classes.values()} == {None}
    assert {part.detected for part in evaluation.oods["odd"].classes.values()} == {None}
    assert [name for name, _ in worst_classes(evaluation)] == ["ant", "bee"]


def test_the_worst_classes_have_most_wrong_labels_and_false_alarms() -> None:
    assert [name for name, _ in worst_classes(by_class())] == ["bee", "ant"]
    assert [name for name, _ in worst_ood_classes(by_class())] == ["odd: x", "plain", "odd: y"]


def test_scores_alone_say_nothing_of_classes() -> None:
    evaluation = three_sets()
    assert evaluation.classes == {}
    assert as_json(evaluation)["classes"] == {}
    assert worst_classes(evaluation) == []


def test_json_holds_the_numbers_of_every_class() -> None:
    content = json.loads(json.dumps(as_json(by_class())))
    assert content["classes"]["bee"] == {
        "images": 2, "recall": 1.0, "precision": 2 / 3, "false_alarms": 1.0,
    }  # fmt: skip
    assert content["oods"]["odd"]["classes"]["x"] == {
        "images": 1, "detected": 0.0, "auroc": 0.0, "taken_for": {"bee": 1.0},
    }  # fmt: skip
    assert list(content["oods"]["odd"]["taken_for"]) == ["cow", "ant", "bee"]


def test_the_csv_of_classes_has_a_row_for_each_class_and_each_set() -> None:
    assert as_class_csv(by_class()).splitlines() == [
        "kind,set,class,images,recall,precision,anomalous,AUROC,taken_for,taken_for_share",
        "ind,test images,,7,66.67,,42.86,,,",
        "ind,test images,ant,4,50.00,100.00,0.00,,,",
        "ind,test images,bee,2,100.00,66.67,100.00,,,",
        "ood,odd,,4,,,75.00,67.86,cow,50.00",
        "ood,odd,x,1,,,0.00,0.00,bee,100.00",
        "ood,odd,y,2,,,100.00,85.71,ant,50.00",
        "ood,plain,,2,,,50.00,78.57,bee,100.00",
    ]
    assert as_class_csv(three_sets(threshold=None)).splitlines()[2] == "ood,easy,,2,,,,100.00,,"


# --- With a detector --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Detector:
    """Return a detector for the 3 classes of `tiny_source`, calibrated."""
    source, settings = tiny_source(), tiny_settings()
    run = RunDirectory.create(tmp_path_factory.mktemp("tiny") / "run", settings, {})
    train_network(source, settings, run)
    fitted = Detector.fit(load_network(run.encoder_path), source)
    return fitted.calibrate(tiny_source(images=90, seed=1), false_alarms=0.2)


def noise(images: int) -> ImageSet:
    pixels = np.random.default_rng(5).integers(0, 256, (images, 3, 16, 16), dtype=np.uint8)
    return replace(labelled([-1] * images), images=pixels)


def test_evaluating_a_detector_is_evaluating_its_scores(detector: Detector) -> None:
    known, odd = tiny_source(images=30, seed=2), noise(7)
    evaluation = evaluate(detector, known, {"noise": odd}, averages={"far": ["noise"]})
    ind, ood = detector(known.images), detector(odd.images)
    assert evaluation == evaluate_verdicts(
        ScoredSet(known, ind),
        {"noise": ScoredSet(odd, ood)},
        classes=detector.classes,
        averages={"far": ["noise"]},
    )
    assert evaluation.accuracy == (ind.labels.numpy() == known.labels).mean()
    assert evaluation.false_alarms == ind.anomalous.double().mean()
    assert evaluation.oods["noise"].detected == ood.anomalous.double().mean()


def test_shares_are_those_of_the_verdicts_where_classes_have_their_own_thresholds(
    detector: Detector,
) -> None:
    known, odd = tiny_source(images=60, seed=2), noise(20)
    held_out = tiny_source(images=300, seed=1)
    per_class = detector.calibrate(held_out, false_alarms=0.4, per_class=True)
    evaluation = evaluate(per_class, known, {"noise": odd}, averages={"far": ["noise"]})
    ind, ood = per_class(known.images), per_class(odd.images)
    assert evaluation.false_alarms == ind.anomalous.double().mean()
    assert not torch.equal(ind.anomalous, ind.scores > per_class.threshold)
    assert evaluation.oods["noise"].detected == ood.anomalous.double().mean()
    assert evaluation.averages["far"].detected == evaluation.oods["noise"].detected
    for label, result in enumerate(evaluation.classes.values()):
        own = torch.from_numpy(known.labels == label)
        assert result.false_alarms == ind.anomalous[own].double().mean()


def test_without_a_calibration_no_share_is_called_anomalous(detector: Detector) -> None:
    uncalibrated = replace(detector, calibration=None)
    evaluation = evaluate(uncalibrated, noise(3), {"noise": noise(4)})
    assert (evaluation.accuracy, evaluation.false_alarms) == (None, None)
    assert evaluation.oods["noise"].detected is None


def test_sources_can_be_named_and_are_resized(detector: Detector, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 24, 24, 3), dtype=np.uint8)
    np.save(tmp_path / "a.npy", pixels)
    source = f"arrays:{tmp_path / 'a.npy'}"
    named = evaluate(detector, source, {"odd": source})
    assert named == evaluate(detector, load(source, size=16), {"odd": load(source, size=16)})


def test_progress_is_told_by_set(detector: Detector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddone.detector.view_embedder.PIXELS_AT_ONCE", 8 * 16 * 16 * 4)
    told: list[tuple[int, int, str]] = []
    evaluate(detector, noise(10), {"odd": noise(3)}, progress=lambda *step: told.append(step))
    assert told == [
        (4, 10, "test images"),
        (8, 10, "test images"),
        (10, 10, "test images"),
        (3, 3, "odd"),
    ]


def test_mistakes_are_told_before_the_detector_works(detector: Detector) -> None:
    def unexpected(*step: object) -> None:
        raise AssertionError(step)

    with pytest.raises(SettingsError, match="no OOD set 'nois'; did you mean 'noise'"):
        evaluate(
            detector,
            noise(1),
            {"noise": noise(1)},
            averages={"near": ["nois"]},
            progress=unexpected,
        )
    strange = replace(tiny_source(), classes=("class 0", "class 1", "klass 2"))
    with pytest.raises(DataError, match="'klass 2' .did you mean 'class 2'"):
        evaluate(detector, strange, {}, progress=unexpected)
    with pytest.raises(DataError, match="does not exist"):
        evaluate(detector, noise(1), {"noise": "nowhere"}, progress=unexpected)


def test_images_that_were_trained_on_are_no_test(detector: Detector) -> None:
    with pytest.warns(DataWarning, match="100% of the 48 test images are some .* trained on"):
        evaluate(detector, tiny_source(), {})
