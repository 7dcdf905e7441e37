"""The loop over images, with a scorer so simple that every verdict is known."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from oddone.baselines import BaselineScorer
from oddone.data import ImageSet
from oddone.errors import DataError, SettingsError
from oddone.scoring import ImageBatch, ProcessedBatch, Scorer, process_batches, score_images
from oddone.verdicts import Verdicts

SIZE = 4


@dataclass
class Brightness:
    """A scorer: the score is an image's mean, its label is which channel is the brightest."""

    batch_size: int = 3
    image_size: int = SIZE
    batches: list[int] = field(default_factory=list)
    """How many images it was called with, each time."""

    def __call__(self, images: ImageBatch) -> Verdicts:
        self.batches.append(len(images))
        return Verdicts(images.float().mean(dim=(1, 2, 3)), images.sum(dim=(2, 3)).argmax(dim=1))


def uniform(count: int, size: int = SIZE) -> ImageSet:
    """Return images of one colour each, brighter one after the other, in turn red, green, blue."""
    images = np.zeros((count, 3, size, size), dtype=np.uint8)
    for number in range(count):
        images[number, number % 3] = 3 * number
    labels = np.full(count, -1, dtype=np.int64)
    return ImageSet(images, labels, (), [f"uniform[{number}]" for number in range(count)], "u")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of six images, with two files among them that are none."""
    for number, image in enumerate(uniform(6).images):
        Image.fromarray(image.transpose(1, 2, 0)).save(tmp_path / f"{number}.png")
    (tmp_path / "1 empty.png").touch()
    (tmp_path / "3 text.png").write_text("no picture")
    return tmp_path


FILES = ["0.png", "1 empty.png", "1.png", "2.png", "3 text.png", "3.png", "4.png", "5.png"]


def pixels_of(batch: ImageBatch) -> list[int]:
    """Return the brightness of the brightest channel of each image."""
    return batch.amax(dim=(1, 2, 3)).tolist()


def results_of(batches: list[ProcessedBatch[list[int]]]) -> list[list[int] | None]:
    return [batch.result for batch in batches]


# --- Batch by batch ---------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3, 4, 7, 100])
def test_images_of_a_set_come_in_order_in_batches_of_the_size_asked_for(batch_size: int) -> None:
    batches = list(process_batches(pixels_of, uniform(7), size=SIZE, batch_size=batch_size))
    expected = [3 * number for number in range(7)]
    parts = [expected[start : start + batch_size] for start in range(0, 7, batch_size)]
    assert results_of(batches) == parts
    paths = [picture.path for batch in batches for picture in batch.pictures]
    assert paths == [f"uniform[{number}]" for number in range(7)]


def test_indices_choose_images_and_their_order() -> None:
    indices = np.array([5, 0, 5, 2])
    batches = list(process_batches(pixels_of, uniform(7), size=SIZE, batch_size=3, indices=indices))
    assert results_of(batches) == [[15, 0, 15], [6]]
    assert [picture.path for picture in batches[0].pictures] == [
        "uniform[5]",
        "uniform[0]",
        "uniform[5]",
    ]


def test_indices_of_what_is_not_in_memory_are_refused(folder: Path) -> None:
    with pytest.raises(SettingsError, match="indices choose among the images of an ImageSet; load"):
        process_batches(pixels_of, folder, size=SIZE, batch_size=3, indices=np.array([0]))


@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
def test_a_file_that_cannot_be_read_has_its_place_and_no_result(
    folder: Path, batch_size: int
) -> None:
    batches = list(process_batches(pixels_of, folder, size=SIZE, batch_size=batch_size))
    pictures = [picture for batch in batches for picture in batch.pictures]
    assert [Path(picture.path).name for picture in pictures] == FILES
    reasons = {Path(p.path).name: p.reason for p in pictures if p.image is None}
    assert reasons == {
        "1 empty.png": "empty file",
        "3 text.png": "not an image of a known format",
    }
    read = [pixels for batch in batches for pixels in batch.result or ()]
    assert read == [3 * number for number in range(6)]
    for batch in batches:
        readable = sum(picture.image is not None for picture in batch.pictures)
        assert len(batch.result or ()) == readable
        assert (batch.result is None) == (readable == 0)


def test_a_batch_of_which_nothing_can_be_read_is_not_processed(folder: Path) -> None:
    def unexpected(images: ImageBatch) -> None:
        raise AssertionError(images)

    broken = [folder / "3 text.png", folder / "1 empty.png"]
    (batch,) = process_batches(unexpected, broken, size=SIZE, batch_size=5)
    assert len(batch.pictures) == 2
    assert batch.result is None


def test_images_of_any_size_are_resized(folder: Path) -> None:
    (large,) = process_batches(lambda images: images, uniform(5, 12), size=SIZE, batch_size=5)
    assert large.result is not None
    assert torch.equal(large.result, torch.from_numpy(uniform(5).images))
    (batch,) = process_batches(lambda images: images, folder, size=9, batch_size=100)
    assert batch.result is not None
    assert batch.result.shape == (6, 3, 9, 9)
    assert batch.result.dtype == torch.uint8


def test_a_batch_is_processed_when_it_is_asked_for() -> None:
    scorer = Brightness()
    batches = process_batches(scorer, uniform(7), size=SIZE, batch_size=3)
    assert scorer.batches == []
    next(batches)
    assert scorer.batches == [3]
    assert len(list(batches)) == 2
    assert scorer.batches == [3, 3, 1]


def test_progress_counts_the_processed_images_of_a_set() -> None:
    told: list[tuple[int, int, str]] = []

    batches = process_batches(
        lambda _: len(told),
        uniform(7),
        size=SIZE,
        batch_size=3,
        progress=lambda *now: told.append(now),
    )
    assert [batch.result for batch in batches] == [0, 1, 2]
    assert told == [(3, 7, "images"), (6, 7, "images"), (7, 7, "images")]


def test_progress_counts_the_images_of_the_indices() -> None:
    told: list[tuple[int, int, str]] = []
    indices = np.array([5, 0, 5, 2])
    batches = process_batches(
        pixels_of,
        uniform(7),
        size=SIZE,
        batch_size=3,
        indices=indices,
        progress=lambda *now: told.append(now),
    )
    assert len(list(batches)) == 2
    assert told == [(3, 4, "images"), (4, 4, "images")]


def test_progress_reaches_the_number_of_files(folder: Path) -> None:
    told: list[tuple[int, int, str]] = []
    batches = process_batches(
        pixels_of, folder, size=SIZE, batch_size=2, progress=lambda *now: told.append(now)
    )
    assert len(list(batches)) == 4
    assert told[-1] == (8, 8, "images")


def test_no_images_are_no_batches() -> None:
    assert list(process_batches(pixels_of, uniform(0), size=SIZE, batch_size=3)) == []
    assert list(process_batches(pixels_of, [], size=SIZE, batch_size=3)) == []


def test_what_is_wrong_is_said_before_the_first_batch(folder: Path) -> None:
    for batch_size in (0, -1):
        with pytest.raises(SettingsError, match=f"batch_size={batch_size}: choose 1 or more"):
            process_batches(pixels_of, folder, size=SIZE, batch_size=batch_size)
    with pytest.raises(DataError, match="'no/such' does not exist"):
        process_batches(pixels_of, ["no/such"], size=SIZE, batch_size=1)


# --- Verdicts on a set ------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_verdicts_on_a_set_are_those_on_its_images_at_once(batch_size: int) -> None:
    images = uniform(7)
    at_once = Brightness()(torch.from_numpy(images.images))
    verdicts = score_images(Brightness(batch_size), images)
    assert torch.equal(verdicts.scores, at_once.scores)
    assert torch.equal(verdicts.labels, at_once.labels)
    assert verdicts.probabilities is None


def test_a_scorer_gets_batches_of_its_own_size_and_images_of_its_own_size() -> None:
    scorer = Brightness(batch_size=4)
    verdicts = score_images(scorer, uniform(10, size=12))
    assert scorer.batches == [4, 4, 2]
    assert torch.equal(verdicts.scores, score_images(Brightness(), uniform(10)).scores)


def test_only_the_images_of_the_indices_are_scored() -> None:
    scorer = Brightness()
    verdicts = score_images(scorer, uniform(9), indices=np.array([8, 2, 5, 2]))
    assert verdicts.scores.tolist() == [8, 2, 5, 2]
    assert verdicts.labels.tolist() == [2, 2, 2, 2]
    assert scorer.batches == [3, 1]


def test_no_images_get_no_verdicts() -> None:
    for images, indices in ((uniform(0), None), (uniform(3), np.arange(0))):
        verdicts = score_images(Brightness(), images, indices=indices)
        assert len(verdicts) == 0
        assert verdicts.labels.dtype == torch.long


def test_progress_has_the_description_asked_for() -> None:
    told: list[tuple[int, int, str]] = []
    score_images(
        Brightness(), uniform(7), progress=lambda *now: told.append(now), description="textures"
    )
    assert told[-1] == (7, 7, "textures")
    assert {what for *_, what in told} == {"textures"}


def test_images_that_cannot_be_written_to_are_scored_without_a_warning() -> None:
    images = uniform(5)
    images.images.flags.writeable = False
    assert len(score_images(Brightness(), replace(images))) == 5


def test_a_scorer_is_what_has_a_size_a_batch_and_can_be_called() -> None:
    assert isinstance(Brightness(), Scorer)
    assert isinstance(BaselineScorer(Brightness(), SIZE, 3), Scorer)
    assert not isinstance(pixels_of, Scorer)
