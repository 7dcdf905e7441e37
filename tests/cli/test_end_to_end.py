"""From a user's folder to verdicts, through the command line."""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oddone import Detector, OddOneClassifier
from runs import tiny_settings, tiny_source

sys.path.append(str(Path(__file__).parents[1] / "data"))
from pictures import bomb_png

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))


def write_photos(root: Path) -> None:
    """Write three classes of forty pictures each, and among them what real folders hold."""
    source = tiny_source(images=120, size=40)
    for number, (image, label) in enumerate(zip(source.images, source.labels, strict=True)):
        folder = root / f"class {label}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{number}.png")
    first = root / "class 0"
    (first / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 and then nothing")
    (first / "empty.png").write_bytes(b"")
    (first / "bomb.png").write_bytes(bomb_png())
    (first / "Thumbs.db").write_bytes(b"not a picture, and not called one")
    Image.new("L", (37, 90), 120).save(first / "grey.png")
    Image.new("CMYK", (64, 64)).save(first / "print.jpg")
    Image.new("RGB", (3000, 2000), "orange").save(first / "huge.jpg")


def test_a_folder_becomes_a_detector_that_scores_explains_and_is_evaluated(
    tmp_path: Path, run_oddone: Run
) -> None:
    photos, run = tmp_path / "photos", tmp_path / "run"
    write_photos(photos)
    code, printed, _ = run_oddone(
        "train", str(photos), "--out", str(run), "--preset", "smoke", "--held-out", "0.3"
    )
    assert code == 0
    assert "3 files could not be read" in printed
    assert "scores above" in printed
    assert f"Next: oddone score {run}" in printed
    detector = Detector.load(run / "detector.oddone")
    assert detector.classes == ("class 0", "class 1", "class 2")
    assert detector.provenance["data"]["source"] == str(photos)

    scores = tmp_path / "scores.csv"
    code, _, said = run_oddone("score", str(run), str(photos), "--out", str(scores))
    assert code == 0
    assert "3 unreadable" in said
    rows = list(csv.DictReader(scores.read_text().splitlines()))
    assert len(rows) == 120 + 6
    broken = {Path(row["path"]).name: row["reason"] for row in rows if row["reason"]}
    assert set(broken) == {"broken.jpg", "empty.png", "bomb.png"}

    picture = tmp_path / "why.png"
    code, printed, _ = run_oddone(
        "explain", str(run), str(photos / "class 1" / "1.png"), "--out", str(picture)
    )
    assert code == 0
    with Image.open(picture) as drawn:
        assert drawn.width > 1000

    result = tmp_path / "result.json"
    code, printed, _ = run_oddone(
        "evaluate", str(run), str(photos), "--ood", "digits=digits", "--out", str(result)
    )
    assert code == 0
    measured = json.loads(result.read_text())
    assert measured["oods"]["digits"]["images"] == 1797
    assert measured["images"] == 123


def test_four_ways_to_score_an_image_agree(tmp_path: Path, run_oddone: Run) -> None:
    source, settings = tiny_source(images=90), tiny_settings(held_out=0.3)
    classifier = OddOneClassifier(settings=settings, false_alarms=0.1)
    classifier.fit(source.images, source.labels)
    image = source.images[7:8]
    by_call = classifier.detector_(image).scores.item()
    by_estimator = -classifier.score_samples(image)[0]
    classifier.detector_.save(tmp_path / "a.oddone")
    by_file = Detector.load(tmp_path / "a.oddone")(image).scores.item()
    Image.fromarray(image[0].transpose(1, 2, 0)).save(tmp_path / "image.png")
    _, printed, _ = run_oddone("score", str(tmp_path / "a.oddone"), str(tmp_path / "image.png"))
    by_command = float(next(csv.DictReader(printed.splitlines()))["score"])
    np.testing.assert_allclose([by_estimator, by_file, by_command], by_call, rtol=1e-5)
