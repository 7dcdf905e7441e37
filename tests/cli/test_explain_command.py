import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oddone.data.decode import decode
from oddone.detector import Detector
from oddone.wording import describe_neighbour
from runs import tiny_source

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """Return a normal image as a file, twice as large as the detector sees it."""
    path = tmp_path / "one [bold].png"
    pixels = tiny_source(seed=9).images[0].transpose(1, 2, 0)
    Image.fromarray(pixels).resize((32, 32), Image.Resampling.NEAREST).save(path)
    return path


@pytest.fixture
def _among_files(picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder with a picture, a cut one and an empty file."""
    monkeypatch.chdir(tmp_path)
    Path("empty.png").touch()
    with Image.open(picture) as whole:
        whole.save("broken.jpg")
    Path("broken.jpg").write_bytes(Path("broken.jpg").read_bytes()[:-200])


@pytest.fixture
def odd_images(tmp_path: Path) -> str:
    """Return the notation of a black image and a white one."""
    shades = np.array([0, 255], dtype=np.uint8)
    np.save(tmp_path / "odd.npy", np.broadcast_to(shades[:, None, None, None], (2, 16, 16, 3)))
    return f"arrays:{tmp_path / 'odd.npy'}"


def test_a_picture_file_is_explained_in_words_and_as_a_picture(
    run_oddone: Run, detector_file: Path, picture: Path, tmp_path: Path
) -> None:
    out = tmp_path / "why.png"
    code, printed, complained = run_oddone(
        "explain", str(detector_file), str(picture), "--out", str(out)
    )
    assert (code, complained) == (0, "")
    detector = Detector.load(detector_file)
    explanation = detector.explain(decode(picture, 16)[None])[0]
    verdict = explanation.verdict
    lines = printed.splitlines()
    name = "none of the 3 classes" if verdict.anomalous else detector.classes[verdict.label]
    assert lines[0] == f"This image is {name}"
    assert f"(p-value {verdict.p_value:.2g}). Its score is {verdict.score:.2f}" in lines[1]
    assert lines[2] == "The training images that look most like it, by cosine distance:"
    for line, near in zip(lines[3:6], explanation.neighbours, strict=True):
        distance, name = describe_neighbour(near.similarity), detector.classes[near.label]
        assert line == f"  {distance}, {name}: {near.path}"
    assert lines[6:] == [f"The picture is {out}"]
    with Image.open(out) as drawn:
        assert drawn.format == "PNG"


def test_one_image_of_a_source_is_chosen_by_its_number(
    run_oddone: Run, detector_file: Path, odd_images: str, tmp_path: Path
) -> None:
    out = tmp_path / "why.svg"
    out.write_text("is overwritten")
    words = ["explain", str(detector_file), odd_images, "--out", str(out), "--number"]
    code, printed, _ = run_oddone(*words, "1")
    assert code == 0
    detector = Detector.load(detector_file)
    white = np.full((1, 3, 16, 16), 255, dtype=np.uint8)
    assert f"Its score is {detector(white).scores[0]:.2f}" in printed
    assert out.read_text().startswith("<?xml")
    for number in ("2", "-1"):
        code, _, complained = run_oddone(*words, number)
        assert code == 2
        assert f"--number {number}: {odd_images} has 2 images; choose 0 to 1" in complained


def test_without_a_calibration_no_p_value_is_told(
    run_oddone: Run, uncalibrated_file: Path, picture: Path, tmp_path: Path
) -> None:
    out = tmp_path / "why.pdf"
    code, printed, _ = run_oddone(
        "explain", str(uncalibrated_file), str(picture), "--out", str(out)
    )
    assert code == 0
    assert printed.startswith("This image looks most like class ")
    assert "only a calibration can tell. Its score is" in printed
    assert "p-value" not in printed
    assert out.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("image", "out", "message"),
    [
        ("broken.jpg", "why.png", "broken.jpg cannot be read as a picture: truncated"),
        ("empty.png", "why.png", "empty.png cannot be read as a picture: empty file"),
        (".", "why.png", "is a directory; name one picture file, or choose one of several"),
        ("nowhere.png", "why.png", "nowhere.png cannot be read as a picture: no such file"),
        ("one [bold].png", "why.gif", "why.gif: let the name of a picture end in .png, .svg, .pdf"),
        ("one [bold].png", "a/why.png", "a/why.png: there is no folder a; make it first"),
        ("one [bold].png", "one [bold].png", "would overwrite the image itself"),
    ],
)
@pytest.mark.usefixtures("_among_files")
def test_a_mistake_is_one_line_and_exit_code_2(
    run_oddone: Run, detector_file: Path, image: str, out: str, message: str
) -> None:
    before = {path: path.read_bytes() for path in Path().iterdir()}
    code, printed, complained = run_oddone("explain", str(detector_file), image, "--out", out)
    assert (code, printed) == (2, "")
    assert message in complained
    assert complained.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize(
    ("words", "package"),
    [
        ("explain run one.png --out why.png", "matplotlib"),
        ("bench show record.json --format html", "jinja2"),
    ],
)
def test_without_the_extra_the_error_says_what_to_install(words: str, package: str) -> None:
    script = f"""if True:
        import sys
        sys.modules[{package!r}] = None
        from oddone.cli import main
        main()
        """
    line = [sys.executable, "-c", script, *words.split()]
    done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"need {package}, which is not installed: pip install 'oddone[report]'" in done.stderr


def test_the_help_has_an_example_and_warns_of_overwriting(run_oddone: Run) -> None:
    code, printed, _ = run_oddone("explain", "--help")
    assert code == 0
    assert "Example: oddone explain run " in printed
    assert "overwritten" in printed
