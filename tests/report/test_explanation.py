import importlib
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from figures_looked_at import axes_of, check_layout, words_of
from matplotlib import pyplot as plt
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from PIL import Image

from oddone.detector import Calibration, Detector, Explanation
from oddone.errors import SettingsError
from oddone.report import draw_explanation, save_figure
from oddone.report.style import ANOMALOUS, NORMAL, UNKNOWN, shorten
from oddone.transforms import (
    ViewSet,
    moved_and_mirrored,
    one_view,
    rotations,
    rotations_and_mirrors,
)
from oddone.wording import describe_neighbour, describe_verdict, format_score
from runs import tiny_source
from small_detector import fitted

ROTATED = ["rotated 90°", "rotated 180°", "rotated 270°"]
MOVED = ["moved +1", "mirrored +1", "moved -1", "mirrored -1"]
MIRRORED = ["mirrored 90°", "mirrored 180°", "mirrored 270°"]


@pytest.fixture(scope="module")
def detector() -> Detector:
    return fitted()


@pytest.fixture(scope="module")
def image() -> np.ndarray:
    return tiny_source().images[4]


@pytest.fixture(scope="module")
def normal(detector: Detector, image: np.ndarray) -> Figure:
    """Return the picture of a normal image, whose score is 0.9 times the threshold."""
    return drawn(detector, image, score=0.9 * detector.threshold)


@pytest.fixture(scope="module")
def odd(detector: Detector, image: np.ndarray) -> Figure:
    """Return the picture of an image whose score is 1.3 times the threshold, above all others."""
    return drawn(detector, image, score=1.3 * detector.threshold)


def renamed(detector: Detector, classes: list[str]) -> Detector:
    trained = replace(detector.embedder.trained, classes=tuple(classes))
    return replace(detector, embedder=replace(detector.embedder, trained=trained))


def explained(detector: Detector, image: np.ndarray, score: float | None = None) -> Explanation:
    """Return the explanation of an image, as if its score were that."""
    explanation = detector.explain(image[None])[0]
    if score is None:
        return explanation
    assert detector.calibration is not None
    p_value = detector.calibration.p_values(torch.tensor([score])).item()
    anomalous = score > detector.calibration.threshold
    verdict = explanation.verdict._replace(score=score, anomalous=anomalous, p_value=p_value)
    return explanation._replace(verdict=verdict)


def drawn(detector: Detector, image: np.ndarray, score: float | None = None) -> Figure:
    return draw_explanation(detector, image, explained(detector, image, score), title="one.png")


# --- What it says -----------------------------------------------------------------------------


def test_a_normal_image_is_named_and_blue(
    detector: Detector, image: np.ndarray, normal: Figure
) -> None:
    words = words_of(normal)
    name = detector.classes[explained(detector, image).verdict.label]
    headline = normal.texts[words.index("This image is") + 1]
    assert (headline.get_text(), headline.get_color()) == (name, NORMAL)
    verdict = describe_verdict(
        detector, explained(detector, image, score=0.9 * detector.threshold).verdict
    )
    assert verdict.rarity in words
    score, threshold = format_score(0.9 * detector.threshold), format_score(detector.threshold)
    assert f"Its score is {score}, and images above {threshold} are called odd." in words
    assert "one.png" in words


def test_an_odd_image_is_none_of_the_classes_and_vermilion(
    detector: Detector, image: np.ndarray, odd: Figure
) -> None:
    words = words_of(odd)
    name = detector.classes[explained(detector, image).verdict.label]
    headline = odd.texts[words.index("This image is") + 1]
    assert (headline.get_text(), headline.get_color()) == ("none of the 3 classes", ANOMALOUS)
    assert "This odd or odder: none of 60 normal images" in words
    assert any(
        line.endswith(f"are called odd. The likeliest class would be {name}.") for line in words
    )


def test_an_image_is_shown_among_those_of_its_class_where_that_has_its_own_threshold(
    detector: Detector, image: np.ndarray
) -> None:
    label = explained(detector, image).verdict.label
    labels = torch.full((60,), (label + 1) % 3)
    labels[:30] = label
    calibration = replace(detector.calibration, labels=labels)
    figure = drawn(replace(detector, calibration=calibration), image)
    own = calibration.for_class(label)
    assert "its score among 30 normal images" in words_of(figure)
    assert f"threshold {format_score(own.threshold)}" in words_of(figure)
    assert own.threshold != calibration.threshold


def test_neighbours_are_shown_with_label_distance_and_path(
    detector: Detector, image: np.ndarray, normal: Figure
) -> None:
    words = words_of(normal)
    shown = [axes.images[0].get_array() for axes in axes_of(normal, "neighbour")]
    neighbours = explained(detector, image).neighbours
    assert len(neighbours) == 3
    for neighbour, picture in zip(neighbours, shown, strict=True):
        np.testing.assert_array_equal(picture, neighbour.thumbnail)
        here = words.index(neighbour.path)
        assert words[here - 2] == detector.classes[neighbour.label]
        assert words[here - 1] == describe_neighbour(neighbour.similarity)


def test_the_longest_distance_of_a_neighbour_is_not_cut(
    detector: Detector, image: np.ndarray
) -> None:
    explanation = explained(detector, image)
    near = [each._replace(similarity=0.99988) for each in explanation.neighbours]
    figure = draw_explanation(detector, image, explanation._replace(neighbours=tuple(near)))
    assert words_of(figure).count("distance 0.00012") == 3


def test_small_images_are_enlarged_without_blur(image: np.ndarray, normal: Figure) -> None:
    pictures = [axes.images[0] for axes in normal.axes if axes.images]
    assert len(pictures) == 1 + 3 + 8
    assert {picture.get_interpolation() for picture in pictures} == {"nearest"}
    np.testing.assert_array_equal(pictures[0].get_array(), image.transpose(1, 2, 0))


# --- The charts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("views", "names"),
    [
        (one_view, ["as it is"]),
        (moved_and_mirrored, ["as it is", "mirrored", *MOVED, "together"]),
        (rotations, ["as it is", *ROTATED, "together"]),
        (rotations_and_mirrors, ["as it is", *ROTATED, "mirrored", *MIRRORED, "together"]),
    ],
)
def test_each_view_has_its_picture_and_its_distance(
    image: np.ndarray, views: ViewSet, names: list[str]
) -> None:
    detector = fitted(views=views)
    explanation = explained(detector, image)
    figure = draw_explanation(detector, image, explanation)
    (axes,) = axes_of(figure, "views")
    distances = explanation.distances[:, explanation.verdict.label].tolist()
    fused = detector.fuse(explanation.distances[:, None])[0, explanation.verdict.label].item()
    together = [fused] if len(distances) > 1 else []
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(distances + together)
    words = words_of(figure)
    for name, distance in zip(names, distances + together, strict=True):
        assert words[words.index(name) + 1] == format_score(distance)
    pictures = [axes.images[0].get_array() for axes in axes_of(figure, "view")]
    made = views(torch.from_numpy(image)[None])[:, 0]
    np.testing.assert_array_equal(np.stack(pictures), made.permute(0, 2, 3, 1))
    check_layout(figure)


def test_views_of_an_image_that_is_its_own_mirror_image_have_their_names(
    detector: Detector,
) -> None:
    blank = np.zeros((3, 16, 16), dtype=np.uint8)
    words = words_of(drawn(detector, blank))
    start = words.index("as it is")
    assert words[start : start + 16 : 2] == ["as it is", *ROTATED, "mirrored", *MIRRORED]


@pytest.mark.parametrize("classes", [2, 10])
def test_all_classes_have_a_bar_the_likeliest_first(classes: int, image: np.ndarray) -> None:
    detector = fitted(classes)
    explanation = explained(detector, image)
    figure = draw_explanation(detector, image, explanation)
    (axes,) = axes_of(figure, "classes")
    likely = explanation.verdict.probabilities.sort(descending=True)
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(likely.values.tolist())
    names = [detector.classes[label] for label in likely.indices]
    assert names[0] == detector.classes[explanation.verdict.label]
    words = words_of(figure)
    start = words.index("if it is one of them at all") + 1
    assert words[start : start + 2 * classes : 2] == names
    check_layout(figure)


def test_of_many_classes_the_likeliest_ten_have_a_bar(image: np.ndarray) -> None:
    figure = drawn(fitted(classes=100, views=one_view), image)
    (axes,) = axes_of(figure, "classes")
    assert len(axes.patches) == 10
    assert "The likeliest 10 of 100 classes" in words_of(figure)
    check_layout(figure)


def test_the_views_together_make_the_score(detector: Detector, image: np.ndarray) -> None:
    explanation = explained(detector, image)
    (axes,) = axes_of(draw_explanation(detector, image, explanation), "views")
    *views, together = (bar.get_width() for bar in axes.patches)
    assert together == pytest.approx(explanation.verdict.score)
    nearest = detector.fuse(explanation.distances[:, None])[0].argmin()
    assert views == pytest.approx(explanation.distances[:, nearest].tolist())


def test_what_decides_has_the_verdicts_colour_in_every_chart(
    detector: Detector, normal: Figure, odd: Figure
) -> None:
    for figure, times, colour in ((normal, 0.9, NORMAL), (odd, 1.3, ANOMALOUS)):
        (views,), (classes,), (scores,) = (
            axes_of(figure, label) for label in ("views", "classes", "scores")
        )
        assert same_color(views.patches[-1].get_facecolor(), colour)
        assert same_color(classes.patches[0].get_facecolor(), colour)
        assert not same_color(classes.patches[1].get_facecolor(), colour)
        line = scores.lines[-1]
        assert same_color(line.get_color(), colour)
        assert line.get_xdata()[0] == pytest.approx(times * detector.threshold)
        assert f"this image {format_score(times * detector.threshold)}" in words_of(figure)


def test_the_histogram_counts_the_normal_images(detector: Detector, normal: Figure) -> None:
    assert detector.calibration is not None
    (axes,) = axes_of(normal, "scores")
    bars = [bar for bar in axes.patches if same_color(bar.get_facecolor()[:3], NORMAL)]
    counts, edges = np.histogram(detector.calibration.scores, len(bars))
    assert [bar.get_height() for bar in bars] == counts.tolist()
    assert [bar.get_x() for bar in bars] == pytest.approx(edges[:-1])
    (anomalous_zone,) = (
        bar for bar in axes.patches if same_color(bar.get_facecolor()[:3], ANOMALOUS)
    )
    assert anomalous_zone.get_x() == detector.threshold


def test_the_threshold_is_marked_and_the_axes_are_named(detector: Detector, normal: Figure) -> None:
    (views,), (classes,), (scores,) = (
        axes_of(normal, label) for label in ("views", "classes", "scores")
    )
    assert scores.lines[0].get_xdata()[0] == detector.threshold
    assert scores.texts[0].get_text() == f"threshold {format_score(detector.threshold)}"
    assert (scores.get_xlabel(), scores.get_ylabel()) == ("score", "normal images")
    assert (views.get_xlabel(), classes.get_xlabel()) == ("distance", "probability")


def test_without_a_calibration_the_picture_says_how_to_get_one(
    detector: Detector, image: np.ndarray
) -> None:
    figure = drawn(replace(detector, calibration=None), image)
    words = words_of(figure)
    assert "This image looks most like" in words
    assert "How odd that is, only a calibration can tell" in words
    assert "oddone calibrate RUN SOURCE" in words
    assert not axes_of(figure, "scores")
    assert not any("threshold" in line for line in words)
    (axes,) = axes_of(figure, "classes")
    assert same_color(axes.patches[0].get_facecolor(), UNKNOWN)
    check_layout(figure)


# --- Nothing overlaps or is cut ---------------------------------------------------------------


@pytest.mark.parametrize("times", [0.0, 0.99, 1.01, 2.0, 1000.0])
def test_wherever_the_score_is_its_words_have_room(
    detector: Detector, image: np.ndarray, times: float
) -> None:
    figure = drawn(detector, image, score=times * detector.threshold)
    check_layout(figure)
    beyond = [line for line in words_of(figure) if line.endswith("→")]
    assert beyond == (
        [f"this image {format_score(1000 * detector.threshold)} →"] if times == 1000 else []
    )


@pytest.mark.parametrize(
    "scores",
    [[0.0], [1.0] * 50 + [1000.0], [0.001, 0.002], [5000.0, 9000.0]],
)
def test_whatever_the_normal_scores_are_the_words_have_room(
    detector: Detector, image: np.ndarray, scores: list[float]
) -> None:
    calibration = Calibration(torch.tensor(scores).double(), 0.1)
    check_layout(drawn(replace(detector, calibration=calibration), image))


def test_long_and_strange_names_are_shortened_in_the_middle(
    detector: Detector, image: np.ndarray
) -> None:
    names = ["Wide WWW " * 30, "$x_{2}$ of\na \x1b[31mformula", "犬と猫 caf\udce9 " * 20]
    detector = renamed(detector, names)
    explanation = explained(detector, image)
    near = explanation.neighbours[0]._replace(path="folder/" * 500 + "near.png")
    explanation = explanation._replace(neighbours=(near, *explanation.neighbours[1:]))
    for label in range(3):
        verdict = explanation.verdict._replace(label=label, anomalous=label == 0)
        explanation = explanation._replace(verdict=verdict)
        figure = draw_explanation(detector, image, explanation, title="a/" * 500 + "one.png")
        check_layout(figure)
        words = words_of(figure)
        (title,) = (line for line in words if line.endswith("/one.png"))
        assert title.startswith("a/a/")
        (path,) = (line for line in words if line.endswith("ar.png"))
        assert path.startswith("fold")


@pytest.mark.parametrize(
    ("most", "short"),
    [(9, "abcdefgh"), (8, "abcdefgh"), (7, "abc…fgh"), (6, "abc…gh"), (2, "a…"), (1, "…")],
)
def test_the_middle_of_a_name_gives_way(most: int, short: str) -> None:
    assert shorten("abcdefgh", most) == short


# --- Files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")]
)
def test_the_ending_chooses_the_format_and_a_file_is_replaced_whole(
    tmp_path: Path, name: str, start: bytes
) -> None:
    path = tmp_path / name
    path.write_text("before")
    save_figure(Figure(), path)
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_the_saved_picture_is_wide_enough_to_read(normal: Figure, tmp_path: Path) -> None:
    save_figure(normal, str(tmp_path / "why.png"))
    with Image.open(tmp_path / "why.png") as picture:
        assert picture.width == 1800
        assert picture.convert("RGB").getpixel((3, 3)) == (255, 255, 255)


def test_what_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = Figure()
    for name in ("a.gif", "a"):
        with pytest.raises(SettingsError, match=r"picture end in \.png, \.svg, \.pdf"):
            save_figure(figure, tmp_path / name)
    with pytest.raises(SettingsError, match="there is no folder .*nowhere; make it first"):
        save_figure(figure, tmp_path / "nowhere" / "a.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(SettingsError, match="is a folder; name a file in it"):
        save_figure(figure, tmp_path / "folder.png")

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device", path, len(content))

    monkeypatch.setattr("oddone.report.style.write_atomic", full)
    with pytest.raises(SettingsError, match="cannot be written: No space left on device"):
        save_figure(figure, tmp_path / "a.png")


def test_drawing_leaves_matplotlib_as_it_was(detector: Detector, image: np.ndarray) -> None:
    with mpl.rc_context({"font.size": 30, "text.usetex": True, "savefig.bbox": "tight"}):
        before = dict(mpl.rcParams)
        figure = drawn(detector, image)
        assert dict(mpl.rcParams) == before
    check_layout(figure)
    assert plt.get_fignums() == []


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_without_the_extra_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("oddone.report")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        SettingsError, match=rf"need {package}, which .*: pip install 'oddone\[report\]'"
    ):
        importlib.import_module("oddone.report")
