from dataclasses import replace

import numpy as np
import pytest
import torch
from detectors import subset
from hypothesis import given, strategies as st
from torch import Tensor

from oddone.data import ImageSet
from oddone.density import Gaussians, Moments
from oddone.detector.fitting import (
    FitStatistics,
    PosedEmbeddings,
    checked_indices,
    choose_evenly,
    choose_in_proportion,
    fit_statistics,
    group_names,
    training_indices,
)
from oddone.encoders import TrainedNetwork
from oddone.errors import DataError, SettingsError
from oddone.rng import stream
from oddone.scoring import ImageBatch
from oddone.transforms import ViewSet, rotations, rotations_and_mirrors

CLASSES = 3
CHOSEN = {"colours": np.array([0, 6, 7, 8, 41]), "corners": np.array([58])}
SOME = np.arange(95, 35, -1)  # 60 of the 96 images, the last one first


# --- One pass over the images -----------------------------------------------------------------


def embed(images: ImageBatch, views: ViewSet = rotations_and_mirrors) -> dict[str, PosedEmbeddings]:
    """Return two kinds of embeddings: a pixel of eight views, and one view's colours."""
    shown = views(images.double() / 255)
    return {
        "corners": PosedEmbeddings(shown[..., 0, 0], views.poses),
        "colours": PosedEmbeddings(shown[:1].mean(dim=(3, 4)), (0,)),
    }


def fit(
    trained: TrainedNetwork, source: ImageSet, indices: np.ndarray = SOME
) -> FitStatistics[str]:
    return fit_statistics(
        embed, trained, source, indices, moments_of=["corners", "colours"], samples_of=CHOSEN
    )


def assert_same(ours: Moments, expected: Moments) -> None:
    assert torch.equal(ours.count, expected.count)
    torch.testing.assert_close(ours.mean, expected.mean)
    torch.testing.assert_close(ours.scatter, expected.scatter)


@pytest.mark.parametrize("at_once", [7, 60, 1024])
def test_moments_are_those_of_all_images_at_once(
    trained: TrainedNetwork, source: ImageSet, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("oddone.detector.fitting.IMAGES_PER_MOMENTS", at_once)
    ours = fit(trained, source).moments
    everything = embed(torch.from_numpy(source.images[SOME]))
    labels = source.labels[SOME].tolist()
    groups = [pose * CLASSES + label for pose in rotations_and_mirrors.poses for label in labels]
    corners = everything["corners"].embeddings.flatten(0, 1)
    assert_same(ours["corners"], Moments.of(corners, torch.tensor(groups), 4 * CLASSES))
    colours = everything["colours"].embeddings[0]
    assert_same(ours["colours"], Moments.of(colours, torch.tensor(labels), CLASSES))
    assert list(ours) == ["corners", "colours"]


@pytest.mark.parametrize("at_once", [7, 60, 1024])
def test_samples_are_the_embeddings_of_the_chosen_images(
    trained: TrainedNetwork, source: ImageSet, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("oddone.detector.fitting.IMAGES_PER_MOMENTS", at_once)
    ours = fit(trained, source).samples
    for key, chosen in CHOSEN.items():
        expected = embed(torch.from_numpy(source.images[SOME[chosen]]))[key].embeddings
        assert torch.equal(ours[key], expected)
    assert list(ours) == ["colours", "corners"]


def test_a_kind_may_be_asked_for_its_moments_its_samples_or_neither(
    trained: TrainedNetwork, source: ImageSet
) -> None:
    moments_only = fit_statistics(embed, trained, source, SOME, moments_of=["colours"])
    assert (list(moments_only.moments), moments_only.samples) == (["colours"], {})
    samples_only = fit_statistics(
        embed, trained, source, SOME, moments_of=(), samples_of={"corners": np.arange(2)}
    )
    assert (samples_only.moments, list(samples_only.samples)) == ({}, ["corners"])
    assert samples_only.samples["corners"].shape == (8, 2, 3)


def test_every_image_is_embedded_once(trained: TrainedNetwork, source: ImageSet) -> None:
    seen: list[Tensor] = []

    def counted(images: ImageBatch) -> dict[str, PosedEmbeddings]:
        seen.append(images)
        return embed(images)

    fit_statistics(counted, trained, source, SOME, moments_of=["corners", "colours"])
    assert torch.equal(torch.cat(seen), torch.from_numpy(source.images[SOME]))


def test_images_elsewhere_in_the_source_do_not_matter(
    trained: TrainedNetwork, source: ImageSet
) -> None:
    picked, alone = fit(trained, source), fit(trained, subset(source, SOME), np.arange(60))
    for key in ("corners", "colours"):
        assert_same(picked.moments[key], alone.moments[key])
        assert torch.equal(picked.samples[key], alone.samples[key])


def test_images_are_resized_to_the_size_of_the_network(
    trained: TrainedNetwork, source: ImageSet
) -> None:
    large = replace(source, images=source.images.repeat(2, axis=2).repeat(2, axis=3))

    def width(images: ImageBatch) -> dict[str, PosedEmbeddings]:
        widths = torch.full((1, len(images), 1), float(images.shape[3]))
        return {"width": PosedEmbeddings(widths, (0,))}

    statistics = fit_statistics(width, trained, large, np.arange(6), moments_of=["width"])
    assert statistics.moments["width"].mean.flatten().tolist() == [16] * CLASSES


def test_a_class_without_images_has_moments_of_nothing(
    trained: TrainedNetwork, source: ImageSet
) -> None:
    two_classes = np.flatnonzero(source.labels < 2)
    moments = fit_statistics(embed, trained, source, two_classes, moments_of=["colours"]).moments
    assert moments["colours"].count.tolist() == [32, 32, 0]
    with pytest.raises(DataError, match="group 'class 2' has 0 images and a Gaussian needs"):
        Gaussians.fit(moments["colours"], names=group_names(1, trained.classes))


def test_progress_is_told_to_the_last_image(trained: TrainedNetwork, source: ImageSet) -> None:
    told: list[tuple[int, int, str]] = []
    fit_statistics(
        embed,
        trained,
        source,
        SOME,
        moments_of=["colours"],
        progress=lambda *now: told.append(now),
    )
    assert told[-1] == (60, 60, "fitting")


def test_gaussians_are_fitted_on_views_that_are_not_mirrored() -> None:
    embeddings = torch.arange(24.0).reshape(8, 1, 3)
    kept = PosedEmbeddings.unmirrored(embeddings, rotations_and_mirrors)
    assert torch.equal(kept.embeddings, embeddings[:4])
    assert list(kept.poses) == [0, 1, 2, 3]
    mixed = ViewSet("mixed", (0, 0, 1, 1), (False, True, True, False))
    kept = PosedEmbeddings.unmirrored(embeddings[:4], mixed)
    assert torch.equal(kept.embeddings, embeddings[[0, 3]])
    assert list(kept.poses) == [0, 1]


def test_groups_are_named_by_class_and_rotation_in_the_order_of_their_numbers() -> None:
    assert group_names(1, ("cat", "dog")) == ["cat", "dog"]
    assert group_names(rotations.n_poses, ("cat", "dog"))[2:] == [
        "cat rotated by 90 degrees",
        "dog rotated by 90 degrees",
        "cat rotated by 180 degrees",
        "dog rotated by 180 degrees",
        "cat rotated by 270 degrees",
        "dog rotated by 270 degrees",
    ]


# --- Which images are meant -------------------------------------------------------------------


def test_all_images_are_meant_unless_indices_say_otherwise(
    trained: TrainedNetwork, source: ImageSet
) -> None:
    assert checked_indices(source, None).tolist() == list(range(96))
    assert training_indices(trained, source, None).tolist() == list(range(96))
    assert training_indices(trained, source, SOME).tolist() == SOME.tolist()


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize(
    ("indices", "message"),
    [
        (np.array([0, 96]), "indices hold 96, and the 96 images are numbered from 0"),
        (np.array([-1]), "indices hold -1"),
        (np.array([0.0]), "indices are float64; give the numbers"),
        (np.array([True]), "indices are bool; give the numbers"),
    ],
)
def test_indices_of_images_that_are_not_there_are_refused(
    source: ImageSet, indices: np.ndarray, message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        checked_indices(source, indices)


# --- Some images of every class ---------------------------------------------------------------


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 40), st.integers(0, 9))
def test_chosen_images_are_spread_over_the_classes(labels: list[int], most: int, seed: int) -> None:
    of_images = np.array(labels)
    chosen = choose_evenly(of_images, most, generator=stream(seed))
    assert len(chosen) == min(most, len(labels))
    assert (np.diff(chosen) > 0).all()
    counts = np.bincount(of_images[chosen], minlength=5)
    left_out = np.bincount(of_images, minlength=5) - counts
    # Where a class has images left, no other has two more.
    assert all(counts.max() - counts[label] <= 1 for label in np.flatnonzero(left_out))
    assert np.array_equal(chosen, choose_evenly(of_images, most, generator=stream(seed)))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 40), st.integers(0, 9))
def test_images_chosen_in_proportion_are_the_same_share_of_each_class(
    labels: list[int], most: int, seed: int
) -> None:
    of_images = np.array(labels)
    chosen = choose_in_proportion(of_images, most, generator=stream(seed))
    assert (np.diff(chosen) > 0).all()
    share = min(1.0, most / len(labels))
    there = np.bincount(of_images, minlength=5)
    exact = share * there
    counts = np.bincount(of_images[chosen], minlength=5)
    assert ((exact - 1e-9 <= counts) & (counts < exact + 1)).all()
    assert (counts > 0).tolist() == (there > 0).tolist()
    assert np.array_equal(chosen, choose_in_proportion(of_images, most, generator=stream(seed)))


def test_another_seed_chooses_other_images() -> None:
    labels = np.arange(300) % 3
    first, second = (choose_evenly(labels, 30, generator=stream(seed)) for seed in (0, 1))
    assert not np.array_equal(first, second)


def test_as_many_as_there_are_is_all_of_them() -> None:
    assert choose_evenly(np.array([2, 0, 2]), 3, generator=stream(0)).tolist() == [0, 1, 2]
