"""`Detector.score`: images of any number, one after the other."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oddone.data import ImageSet
from oddone.data.decode import BATCH, DecodedImage, decode_picture
from oddone.detector import Detector, ScoredImage
from oddone.errors import DataError, SettingsError


@pytest.fixture
def folder(tmp_path: Path, source: ImageSet) -> Path:
    """Return a folder of six images, with two files between them that are none."""
    root = tmp_path / "folder"
    root.mkdir()
    for i in range(6):
        Image.fromarray(source.images[i].transpose(1, 2, 0)).save(root / f"{i}.png")
    (root / "1 empty.png").touch()
    (root / "3 text.png").write_text("no picture")
    return root


def test_the_images_of_a_folder_get_the_verdicts_of_their_pixels(
    detector: Detector, source: ImageSet, folder: Path
) -> None:
    readable = [scored for scored in detector.score(folder) if scored.reason is None]
    assert [scored.path for scored in readable] == [str(folder / f"{i}.png") for i in range(6)]
    for scored, expected in zip(readable, detector(source.images[:6]), strict=True):
        ours = scored.verdict
        assert ours is not None
        assert ours.score == pytest.approx(expected.score, abs=1e-5)
        assert (ours.label, ours.anomalous) == (expected.label, expected.anomalous)
        assert ours.p_value == pytest.approx(expected.p_value)
        assert ours.probabilities is not None
        assert expected.probabilities is not None
        assert ours.probabilities.tolist() == pytest.approx(
            expected.probabilities.tolist(), abs=1e-5
        )
        assert scored.class_name == detector.classes[expected.label]


def test_what_cannot_be_read_has_its_place_and_no_verdict(detector: Detector, folder: Path) -> None:
    scored = list(detector.score(str(folder)))
    assert len(scored) == 8
    assert scored[1] == ScoredImage(str(folder / "1 empty.png"), None, None, "empty file")
    assert scored[4].reason == "not an image of a known format"


@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
def test_the_batches_do_not_matter(detector: Detector, folder: Path, batch_size: int) -> None:
    for one, other in zip(
        detector.score(folder, batch_size=batch_size), detector.score(folder), strict=True
    ):
        assert one._replace(verdict=None) == other._replace(verdict=None)
        assert (one.verdict is None) == (other.verdict is None)
        if one.verdict is not None and other.verdict is not None:
            assert one.verdict.score == pytest.approx(other.verdict.score, abs=1e-5)
            assert one.verdict.label == other.verdict.label


def test_a_batch_without_a_picture_is_no_obstacle(detector: Detector, folder: Path) -> None:
    broken = [folder / "3 text.png", folder / "1 empty.png"]
    assert [scored.verdict for scored in detector.score(broken)] == [None, None]


def test_images_of_any_size_in_memory_can_be_scored(detector: Detector, source: ImageSet) -> None:
    large = replace(source, images=source.images.repeat(2, axis=2).repeat(2, axis=3))
    scored = list(detector.score(large))
    assert [each.path for each in scored] == list(source.paths)
    labels = [each.verdict.label for each in scored if each.verdict is not None]
    assert np.mean(labels == source.labels) > 0.9


def test_a_list_may_mix_files_pil_images_and_arrays(
    detector: Detector, source: ImageSet, folder: Path
) -> None:
    pixels = source.images[1].transpose(1, 2, 0)
    mixed = [Image.fromarray(pixels), str(folder / "1.png"), pixels]
    scored = list(detector.score(mixed))
    assert [each.path for each in scored] == ["image 0", str(folder / "1.png"), "image 2"]
    expected = detector(mixed)
    for each, verdict in zip(scored, expected, strict=True):
        assert each.verdict is not None
        assert each.verdict.score == pytest.approx(verdict.score, abs=1e-5)
        assert each.verdict.label == verdict.label


def test_without_a_calibration_nothing_is_called_anomalous_or_normal(
    detector: Detector, folder: Path
) -> None:
    verdict = next(replace(detector, calibration=None).score(folder)).verdict
    assert verdict is not None
    assert (verdict.p_value, verdict.anomalous) == (None, None)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_a_reason_and_no_verdict(
    detector: Detector, folder: Path, number: float
) -> None:
    gaussians = replace(detector.gaussians, mean=detector.gaussians.mean * number)
    broken = replace(detector, gaussians=gaussians)
    verdicts = broken(folder / "0.png")
    assert verdicts.anomalous is not None
    assert verdicts.anomalous.tolist() == [True]
    scored = next(broken.score(folder))
    assert scored[:3] == (str(folder / "0.png"), None, None)
    assert scored.reason is not None
    assert "its score is nan, which is no number" in scored.reason


def test_neighbours_come_where_they_are_asked_for(
    detector: Detector, source: ImageSet, folder: Path
) -> None:
    scored = next(detector.score(folder, neighbours=2))
    expected = detector.explain(source.images[:1], 2)[0].neighbours
    assert [near.path for near in scored.neighbours] == [near.path for near in expected]
    assert len(expected) == 2
    assert next(detector.score(folder)).neighbours == ()


def test_no_more_than_a_few_batches_are_in_memory(
    detector: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(300):
        Image.new("RGB", (16, 16), (i % 256, 0, 0)).save(tmp_path / f"{i:03}.png")
    decoded: list[Path] = []

    def counted(path: Path, size: int) -> DecodedImage:
        decoded.append(path)
        return decode_picture(path, size)

    monkeypatch.setattr("oddone.data.decode.decode_picture", counted)
    monkeypatch.setattr("oddone.data.decode._cores", lambda: 2)
    for consumed, _ in enumerate(detector.score(tmp_path, batch_size=BATCH), start=1):
        assert len(decoded) - consumed < 9 * BATCH  # the threads' batches and the network's
    assert len(decoded) == 300


def test_progress_reaches_the_number_of_files(detector: Detector, folder: Path) -> None:
    told: list[tuple[int, int, str]] = []
    list(detector.score(folder, progress=lambda *now: told.append(now)))
    assert told[-1] == (8, 8, "images")


def test_what_is_wrong_is_said_before_the_first_verdict(detector: Detector, folder: Path) -> None:
    with pytest.raises(DataError, match="'no/such' does not exist"):
        detector.score(["no/such"])
    with pytest.raises(SettingsError, match="batch_size=0: choose 1 or more"):
        detector.score(folder, batch_size=0)
