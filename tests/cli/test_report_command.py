import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from runs import tiny_source

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def test_images(tmp_path: Path) -> str:
    source = tiny_source(images=30, seed=7)
    images = source.images.transpose(0, 2, 3, 1)
    path = tmp_path / "test.npz"
    np.savez(path, images=images, labels=source.labels, classes=np.array(source.classes))
    return f"arrays:{path}"


@pytest.fixture
def noise(tmp_path: Path) -> str:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8)
    np.save(tmp_path / "noise.npy", pixels)
    return f"arrays:{tmp_path / 'noise.npy'}"


def test_a_run_becomes_a_page_and_files(
    run_oddone: Run, detector_file: Path, test_images: str, noise: str, tmp_path: Path
) -> None:
    run, pictures = tmp_path / "<my> run", tmp_path / "pictures"
    run.mkdir()
    pictures.mkdir()
    shutil.copy(detector_file, run / "detector.oddone")
    lines = [{"step": 1, "loss": 3.5, "terms": {"ccm": 1.0}, "learning_rate": 0.1}]
    (run / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Image.effect_noise((90, 70), 80).save(pictures / "noise.png")
    out, figures = tmp_path / "report.html", tmp_path / "a" / "figures"
    code, printed, complained = run_oddone(
        "report", str(run), "--test", test_images, "--ood", f"noise={noise}", "--out", str(out),
        "--figures", str(figures), "--pictures", str(pictures),
    )  # fmt: skip
    assert (code, complained) == (0, "")
    assert f"the page is {out}" in printed
    assert f"the figures are in {figures}" in printed
    page = out.read_text()
    assert "<h1>Report on &lt;my&gt; run</h1>" in page
    assert "loss 3.50 at first" in page
    assert "<li>images of 16 x 16 pixels</li>" in page
    assert "ccm, the class-conditional mask" in page
    names = {path.stem for path in figures.iterdir()}
    assert {"tsne", "roc", "curves", "views", "artefacts"} < names
    endings = sorted(path.suffix for path in figures.iterdir())
    assert endings == [".png"] * len(names) + [".svg"] * len(names)
    assert page.count("<img ") == len(names)


def test_detectors_are_compared_and_told_apart(
    run_oddone: Run, detector_file: Path, test_images: str, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copy(detector_file, tmp_path / name / "same.oddone")
    other = shutil.copy(detector_file, tmp_path / "other.oddone")
    detectors = [str(tmp_path / "one/same.oddone"), str(tmp_path / "two/same.oddone"), str(other)]
    out, figures = tmp_path / "report.html", tmp_path / "figures"
    words = ["--test", test_images, "--out", str(out), "--figures", str(figures)]
    assert run_oddone("report", *detectors, *words)[0] == 0
    title = out.read_text().split("<h1>")[1].split("</h1>")[0]
    assert title == f"Report on {detectors[0]}, {detectors[1]} and other"
    assert {"tsne.svg", "views-1.svg", "views-3.png"} < {path.name for path in figures.iterdir()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"detectors": []}, "0 detectors: name 1 to 4, runs or files of detectors"),
        ({"detectors": ["d.oddone"] * 5}, "5 detectors: name 1 to 4"),
        ({"detectors": ["d.oddone"] * 2}, "d.oddone, d.oddone: name each only once"),
        ({"detectors": ["nowhere"]}, "nowhere"),
        ({"--out": "report.pdf"}, "--out report.pdf: let the name end in .html"),
        ({"--out": "nowhere/a.html"}, "--out nowhere/a.html: name a file in a folder that exists"),
        ({"--out": "folder.html"}, "--out folder.html: name a file in a folder that exists"),
        ({"--figures": "d.oddone"}, "--figures d.oddone is a file; name a folder"),
        ({"--figures": "d.oddone/a"}, "--figures d.oddone/a cannot be made: Not a directory"),
        ({"--ood": "=x"}, "--ood =x: write NAME=SOURCE"),
        ({"--pictures": "nowhere"}, "--pictures nowhere is no folder; give one with"),
    ],
)
def test_mistakes_are_told_in_one_line(
    run_oddone: Run,
    detector_file: Path,
    test_images: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str | list[str]],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(detector_file, "d.oddone")
    Path("folder.html").mkdir()
    options = {"--test": test_images, "--out": "report.html", **changes}
    detectors = options.pop("detectors", ["d.oddone"])
    code, _, complained = run_oddone("report", *detectors, *sum(options.items(), ()))
    assert code == 2
    assert message in complained
    assert complained.count("\n") == 1
