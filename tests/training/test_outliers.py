from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from comparing import assert_same_weights, begun, losses, train_until

from oddone.data import ImageSet
from oddone.errors import DataError, SettingsError
from oddone.training import BatchSettings, TrainSettings, train_network
from oddone.training.batches import Batches, ExposedBatches, colour_views
from runs import tiny_settings, tiny_source

CPU = torch.device("cpu")


def exposed(**changes: object) -> TrainSettings:
    return tiny_settings(objective="cross-entropy", **changes)


def grey_outliers(images: int = 30) -> ImageSet:
    """Return labelled images that are all grey, and so known by their colour."""
    source = tiny_source(images, seed=5)
    return replace(source, images=np.full_like(source.images, 128))


@pytest.mark.parametrize("poses_per_image", [1, 4])
def test_a_step_sees_as_many_outliers_as_images_turned_and_augmented_alike(
    poses_per_image: int,
) -> None:
    settings = exposed(batch=BatchSettings(images=12, poses_per_image=poses_per_image))
    normal = Batches(tiny_source(), settings).make(3, CPU)
    views, rows = ExposedBatches.build(tiny_source(), grey_outliers(), settings).make(3, CPU)
    images = colour_views(views)
    half = 12 * poses_per_image
    outlying = rows.labels == -1
    assert outlying.sum() == half
    assert outlying[:half].sum() == half // 2  # in either half of the rows alike
    order = rows.parents[~outlying].argsort()
    torch.testing.assert_close(images[~outlying][order], colour_views(normal.views))
    assert torch.equal(rows.labels[~outlying][order], normal.rows.labels)
    assert images.shape == (2 * half, 3, 16, 16)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert len(rows.parents.unique()) == 2 * half
    flat = images[outlying].flatten(2)
    assert (flat.amax(dim=2) - flat.amin(dim=2)).max() < 1e-5  # grey, however it was jittered
    assert len(flat[:, 0, 0].unique()) > 1
    if poses_per_image == 4:
        assert Counter(rows.poses[outlying].tolist()) == dict.fromkeys(range(4), 12)


def test_outliers_have_random_streams_of_their_own_that_follow_from_seed_and_step() -> None:
    source = tiny_source()
    one, other, reseeded = (
        ExposedBatches.build(source, source, exposed(seed=seed)) for seed in (3, 3, 4)
    )
    other.make(0, CPU)
    outlying = one.make(5, CPU).rows.labels == -1
    images = colour_views(one.make(5, CPU).views)
    outliers = images[outlying]
    assert torch.equal(images, colour_views(other.make(5, CPU).views))
    assert not torch.equal(outliers, images[~outlying])
    assert not torch.equal(outliers, colour_views(one.make(6, CPU).views)[outlying])
    assert not torch.equal(outliers, colour_views(reseeded.make(5, CPU).views)[outlying])


def test_few_outliers_are_all_seen_and_few_images_get_no_more_outliers_than_they_are() -> None:
    few_outliers = ExposedBatches.build(tiny_source(), grey_outliers(5), exposed())
    assert Counter((few_outliers.make(0, CPU).rows.labels < 0).tolist()) == {False: 12, True: 5}
    few_images = ExposedBatches.build(tiny_source(6), grey_outliers(), exposed())
    assert Counter((few_images.make(0, CPU).rows.labels < 0).tolist()) == {False: 6, True: 6}
    assert few_images.steps_per_epoch == 1


@pytest.mark.parametrize("held_out", [0.0, 0.5])
def test_no_outlier_is_held_out(held_out: float) -> None:
    batches = ExposedBatches.build(tiny_source(), grey_outliers(), exposed(held_out=held_out))
    assert len(batches.outliers.members) == 30


def test_a_classifier_learns_to_be_undecided_about_outliers(tmp_path: Path) -> None:
    settings = exposed(steps=40, rotations="none", outlier_weight=1.0)
    run = begun(tmp_path / "run", settings)
    train_network(tiny_source(), settings, run, outliers=grey_outliers())
    terms = [line["terms"] for line in run.history()]
    assert terms[0].keys() == {"class", "outliers"}
    assert np.mean([term["class"] for term in terms[-5:]]) < 0.6 * terms[0]["class"]
    assert np.mean([term["outliers"] for term in terms[-5:]]) == pytest.approx(np.log(3), rel=0.1)


def test_stopped_and_resumed_equals_never_stopped_with_outliers(tmp_path: Path) -> None:
    settings = exposed(steps=5)
    whole, parts = begun(tmp_path / "whole", settings), begun(tmp_path / "parts", settings)
    outliers = tiny_source(30, seed=5)
    train_network(tiny_source(), settings, whole, outliers=outliers)
    train_until(3, tiny_source(), parts, outliers=outliers)
    assert train_network(tiny_source(), settings, parts, outliers=outliers).finished
    assert_same_weights(whole, parts)
    assert losses(whole) == losses(parts)


@pytest.mark.parametrize("objective", ["mcl", "supclr", "simclr", "joint"])
def test_other_objectives_take_no_outliers(tmp_path: Path, objective: str) -> None:
    settings = tiny_settings(objective=objective)
    message = f"objective='{objective}'; choose objective='cross-entropy', or give no outliers"
    with pytest.raises(SettingsError, match=message):
        train_network(
            tiny_source(), settings, begun(tmp_path / "run", settings), outliers=tiny_source()
        )


def test_outliers_that_cannot_be_shown_are_refused(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", exposed())
    with pytest.raises(DataError, match="no images among the outliers"):
        train_network(tiny_source(), exposed(), run, outliers=tiny_source(0))
    message = "outliers have 24 x 24 pixels and the training images 16 x 16, .*size=16"
    with pytest.raises(DataError, match=message):
        train_network(tiny_source(), exposed(), run, outliers=tiny_source(size=24))
