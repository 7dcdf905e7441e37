from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from comparing import assert_same_weights, begun, losses, train_until

from oddone.data import ImageSet
from oddone.errors import DataError, SettingsError
from oddone.training import BatchSettings, TrainSettings, split_held_out, train_network
from oddone.training.batches import Batches, ExposedBatches, check_source, colour_views
from oddone.transforms import AugmentSettings, CroppedViews, rotate
from runs import tiny_settings, tiny_source

CPU = torch.device("cpu")
PLAIN = AugmentSettings(
    crop_scale=(1.0, 1.0),
    crop_ratio=(1.0, 1.0),
    mirror_probability=0.0,
    jitter_probability=0.0,
    grey_probability=0.0,
)


@pytest.mark.parametrize("poses_per_image", [1, 4])
@pytest.mark.parametrize("rotations", ["task", "augmentation", "none"])
def test_rows_are_what_their_facts_say(poses_per_image: int, rotations: str) -> None:
    source = tiny_source()
    batch = BatchSettings(images=12, poses_per_image=poses_per_image)
    batches = Batches(source, tiny_settings(batch=batch, rotations=rotations, augment=PLAIN))
    views, rows = batches.make(2, CPU)
    images = colour_views(views)
    posed = 12 * (1 if rotations == "none" else poses_per_image)
    assert len(images) == len(rows.labels) == 2 * posed
    assert Counter(rows.parents.tolist()) == dict.fromkeys(range(posed), 2)
    originals = torch.from_numpy(source.images).float() / 255
    for image, label, pose in zip(images, rows.labels, rows.poses, strict=True):
        back = rotate(image[None], -pose[None] % 4)[0]
        matches = [i for i in range(len(source)) if torch.allclose(originals[i], back, atol=1e-6)]
        assert len(matches) == 1
        assert source.labels[matches[0]] == label


def test_all_four_poses_of_an_image_share_a_batch() -> None:
    settings = tiny_settings(batch=BatchSettings(images=12, poses_per_image=4))
    rows = Batches(tiny_source(), settings).rows(0)
    assert Counter(rows.poses.tolist()) == dict.fromkeys(range(4), 24)


def test_an_epoch_shows_every_image_once_in_another_order_each_time() -> None:
    batches = Batches(tiny_source(), tiny_settings())
    assert batches.steps_per_epoch == 4
    first = np.concatenate([batches.picked(step) for step in range(4)])
    second = np.concatenate([batches.picked(step) for step in range(4, 8)])
    assert sorted(first) == sorted(second) == list(range(48))
    assert first.tolist() != second.tolist()


def test_a_batch_larger_than_the_data_is_all_of_it() -> None:
    batches = Batches(tiny_source(10), tiny_settings())
    assert (batches.images_per_step, batches.steps_per_epoch) == (10, 1)


def test_a_step_is_the_same_whoever_asks_for_it() -> None:
    one, other = (Batches(tiny_source(), tiny_settings()) for _ in range(2))
    other.make(0, CPU)
    images = colour_views(one.make(5, CPU).views)
    assert torch.equal(images, colour_views(other.make(5, CPU).views))
    assert not torch.equal(images, colour_views(one.make(6, CPU).views))
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_two_parts_of_a_step_are_its_two_views_of_every_image() -> None:
    batches = Batches(tiny_source(), tiny_settings())
    whole, again = (batches.make(5, CPU).views for _ in range(2))
    assert isinstance(again, CroppedViews)
    first, second = map(colour_views, again.split([12, 12]))
    torch.testing.assert_close(torch.cat([first, second]), colour_views(whole))
    assert batches.rows(5).parents.tolist() == 2 * list(range(12))


def test_cross_entropy_sees_one_view() -> None:
    rows = Batches(tiny_source(), tiny_settings(objective="cross-entropy")).rows(0)
    assert len(rows.labels) == 12


# --- Images that are held out


@pytest.mark.parametrize(
    ("objective", "rotations", "enough"),
    [
        ("mcl", "task", True),
        ("mcl", "none", False),
        ("supclr", "augmentation", False),
        ("cross-entropy", "task", True),
        ("cross-entropy", "none", False),
        ("simclr", "none", True),
        ("joint", "none", True),
    ],
)
def test_one_class_needs_something_to_tell_apart(
    objective: str, rotations: str, enough: bool
) -> None:
    settings = tiny_settings(objective=objective, rotations=rotations)
    if enough:
        check_source(tiny_source(classes=1), settings)
        return
    with pytest.raises(SettingsError, match="with one class and rotations=.* choose rotations='ta"):
        check_source(tiny_source(classes=1), settings)
    check_source(tiny_source(classes=2), settings)


def test_every_class_gives_the_same_share_and_no_image_is_lost() -> None:
    source = tiny_source(images=90, classes=3)
    parts = split_held_out(source, tiny_settings(held_out=0.2))
    assert np.bincount(source.labels[parts.held_out]).tolist() == [6, 6, 6]
    assert sorted([*parts.training, *parts.held_out]) == list(range(90))


@pytest.mark.parametrize(("per_class", "share", "aside"), [(19, 0.1, 1), (4, 0.2, 0), (4, 0.5, 2)])
def test_a_share_is_rounded_down_so_that_a_small_class_keeps_its_images(
    per_class: int, share: float, aside: int
) -> None:
    source = tiny_source(images=3 * per_class, classes=3)
    split = split_held_out(source, tiny_settings(held_out=share))
    assert np.bincount(source.labels[split.held_out], minlength=3).tolist() == [aside] * 3


@pytest.mark.parametrize("per_class", [5, 8, 9])
def test_a_class_of_five_images_spares_one_whatever_the_share(per_class: int) -> None:
    source = tiny_source(images=3 * per_class, classes=3)
    split = split_held_out(source, tiny_settings(held_out=0.1))
    assert np.bincount(source.labels[split.held_out]).tolist() == [1, 1, 1]


def test_where_fewer_are_held_out_they_still_mix_as_the_classes_do() -> None:
    source = tiny_source(images=120)
    source = replace(source, labels=np.repeat([0, 1, 2], [80, 30, 10]))
    split = split_held_out(source, tiny_settings(held_out=0.5, held_out_at_most=8))
    assert np.bincount(source.labels[split.held_out]).tolist() == [16, 6, 2]


def test_a_picture_of_which_there_are_copies_is_not_held_out() -> None:
    source = tiny_source(images=60)
    source.images[30:45] = source.images[:15]
    for seed in range(5):
        split = split_held_out(source, tiny_settings(held_out=0.3, seed=seed))
        assert len(split.held_out) == 18
        assert not set(split.held_out) & {*range(15), *range(30, 45)}


def test_nothing_is_held_out_unless_asked_for() -> None:
    parts = split_held_out(tiny_source(images=9), tiny_settings(held_out=0.0))
    assert parts.training.tolist() == list(range(9))


def test_the_split_follows_from_the_seed() -> None:
    source, settings = tiny_source(images=90), tiny_settings(held_out=0.3)
    again = split_held_out(source, settings).held_out
    assert split_held_out(source, settings).held_out.tolist() == again.tolist()
    assert split_held_out(source, replace(settings, seed=8)).held_out.tolist() != again.tolist()


def test_no_more_of_a_class_is_held_out_than_a_threshold_needs() -> None:
    source = tiny_source(images=60, classes=3)
    split = split_held_out(source, tiny_settings(held_out=0.5, held_out_at_most=4))
    assert np.bincount(source.labels[split.held_out]).tolist() == [4, 4, 4]
    assert len(split.training) == 48


def test_training_never_sees_what_is_held_out() -> None:
    source, settings = tiny_source(images=60), tiny_settings(held_out=0.25)
    batches = Batches(source, settings)
    seen = {int(i) for step in range(20 * batches.steps_per_epoch) for i in batches.picked(step)}
    assert seen == set(split_held_out(source, settings).training.tolist())


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(SettingsError, match="held_out=.*choose a share"):
        tiny_settings(held_out=share)


# --- Outlier exposure


def exposed(**changes: object) -> TrainSettings:
    return tiny_settings(objective="cross-entropy", **changes)


def grey_outliers(images: int = 30) -> ImageSet:
    """Return labelled images that are all grey, and so known by their colour."""
    source = tiny_source(images, seed=5)
    return replace(source, images=np.full_like(source.images, 128))


def test_few_outliers_do_not_have_to_fill_as_many_parts_as_a_batch_has() -> None:
    settings = exposed(batch=BatchSettings(images=64, poses_per_image=1, parts=16))
    batches = ExposedBatches.build(tiny_source(images=12), grey_outliers(), settings)
    assert len(batches.make(0, CPU).rows.labels) == 2 * batches.images_per_step < 2 * 16


@pytest.mark.parametrize("poses_per_image", [1, 4])
def test_a_step_sees_as_many_outliers_as_images_rotated_and_augmented_alike(
    poses_per_image: int,
) -> None:
    settings = exposed(batch=BatchSettings(images=12, poses_per_image=poses_per_image, parts=2))
    normal = Batches(tiny_source(), settings).make(3, CPU)
    views, rows = ExposedBatches.build(tiny_source(), grey_outliers(), settings).make(3, CPU)
    images = colour_views(views)
    half = 12 * poses_per_image
    outlying = rows.labels == -1
    assert outlying.sum() == half
    assert outlying[:half].sum() == half // 2  # in both parts of the rows alike
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


def test_upright_images_come_as_often_as_they_should() -> None:
    settings = tiny_settings(batch=replace(tiny_settings().batch, images=400, upright_share=0.7))
    poses = Batches(tiny_source(images=400), settings).rows(0).poses[:400]
    counts = poses.bincount(minlength=4)
    assert 250 < counts[0] < 310
    assert counts[1:].min() > 20


@pytest.mark.parametrize("share", [0.0, 1.1, float("nan")])
def test_a_share_of_upright_images_is_a_share(share: float) -> None:
    with pytest.raises(SettingsError, match=r"batch\.upright_share="):
        BatchSettings(upright_share=share)
