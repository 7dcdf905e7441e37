"""Distances from one shared pass are those of a detector for each row."""

import pytest
import torch
from benches import known, odd

from oddone.bench.distances import VIEWS, Look, Ways, distances_of
from oddone.bench.scoring import Baseline, Distance, judge_all
from oddone.bench.tables import MSP
from oddone.detector import Detector, Space
from oddone.encoders import TrainedNetwork, load_network
from oddone.fusion import Fuse, average, harmonic, nearest
from oddone.training import RunDirectory, train_network
from oddone.transforms import rotations_and_mirrors
from runs import tiny_settings


def unseen(_done: int, _total: int, _what: str) -> None:
    pass


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedNetwork:
    settings = tiny_settings(steps=2)
    run = RunDirectory.create(tmp_path_factory.mktemp("run") / "run", settings, {})
    train_network(known(60, seed=0), settings, run)
    return load_network(run.encoder_path)


@pytest.mark.parametrize("ways", [1, 4])
def test_the_views_of_eight_turns_begin_with_those_of_fewer(ways: Ways) -> None:
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    fewer, eight = VIEWS[ways](images), rotations_and_mirrors(images)
    torch.testing.assert_close(eight.images[:ways], fewer.images)
    assert eight.poses[:ways].equal(fewer.poses)


@pytest.mark.parametrize("space", ["head", "features"])
@pytest.mark.parametrize(("ways", "fuse"), [(1, average), (4, nearest), (8, harmonic)])
def test_judging_by_distance_is_the_detector_of_the_paper(
    trained: TrainedNetwork, ways: Ways, fuse: Fuse, space: Space
) -> None:
    training, images = known(60, seed=0), odd(12, seed=2)
    detector = Detector.fit(
        trained, training, views=VIEWS[ways], fuse=fuse, space=space, names="nearest"
    )
    expected = detector(images.images)
    hows = [Distance(ways, fuse, space), Distance(8, average, "head")]
    judged = judge_all(trained, training, {"odd": images}, hows, unseen)[hows[0]]["odd"]
    torch.testing.assert_close(judged.scores, expected.scores, rtol=1e-3, atol=1e-3)
    assert judged.labels.equal(expected.labels)


def test_blocks_of_images_make_no_difference(
    trained: TrainedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, sets = known(60, seed=0), {"odd": odd(12, seed=2)}
    look = Look(4, "head")
    at_once = distances_of(trained, training, sets, [look], unseen)
    monkeypatch.setattr("oddone.bench.distances.IMAGES_AT_ONCE", 7)
    in_parts = distances_of(trained, training, sets, [look], unseen)
    torch.testing.assert_close(at_once[look]["odd"], in_parts[look]["odd"], rtol=1e-3, atol=1e-3)


def test_progress_is_told_to_the_last_image(trained: TrainedNetwork) -> None:
    told: list[tuple[int, int, str]] = []
    sets = {"odd": odd(12, seed=2)}
    distances_of(
        trained, known(60, seed=0), sets, [Look(1, "head")], lambda *what: told.append(what)
    )
    assert told == [(60, 60, "fitting"), (12, 12, "odd")]


def test_rows_say_in_words_how_they_judge() -> None:
    assert isinstance(MSP, Baseline)
    assert MSP.words == "maximum softmax"
    assert Distance().words == "distance to the nearest class by its Gaussian, head"
    assert Distance(8, harmonic).words.endswith("head, 8 views, harmonic")
