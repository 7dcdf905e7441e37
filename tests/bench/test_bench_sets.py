"""Which images a bench finds, and which it takes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benches import known, odd

from oddone.bench import BenchImages, find_sets, sample
from oddone.errors import DataError, SettingsError


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_a_folder_is_searched_for_cifar_svhn_and_ood_images_by_name(tmp_path: Path) -> None:
    touch(
        tmp_path / "cifar-10-batches-py" / "test_batch",
        tmp_path / "cifar-100-python" / "test",
        tmp_path / "svhn" / "test_32x32.mat",
        tmp_path / "LSUN_fix" / "1.png",
        tmp_path / "textures.npz",
        tmp_path / "holidays" / "1.png",
        tmp_path / "ood" / "imagenet_sample.npz",
        tmp_path / "ood" / "README.txt",
    )
    assert find_sets((tmp_path,)) == (
        f"cifar10:{tmp_path}",
        {
            "cifar100": f"cifar100:{tmp_path}#test",
            "svhn": f"svhn:{tmp_path / 'svhn'}#test",
            "lsun": str(tmp_path / "LSUN_fix"),
            "textures": str(tmp_path / "textures.npz"),
            "imagenet_sample": str(tmp_path / "ood" / "imagenet_sample.npz"),
        },
    )


def test_data_sets_may_lie_in_folders_of_their_own_and_the_first_wins(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    touch(one / "cifar10" / "cifar-10-python.tar.gz", two / "cifar-10-batches-py" / "test_batch")
    assert find_sets((one, two)).ind == f"cifar10:{one / 'cifar10'}"


def test_an_empty_folder_holds_nothing_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    assert find_sets((tmp_path,)) == (None, {})
    with pytest.raises(DataError, match="--data .*nowhere: there is no such folder"):
        find_sets((tmp_path / "nowhere",))


def test_a_sample_is_always_the_same_and_of_the_size_asked_for() -> None:
    images = known(60, seed=0)
    first, again = sample(images, 7), sample(images, 7)
    assert len(first.images) == 7
    assert first.of is images
    np.testing.assert_array_equal(first.images.images, again.images.images)
    numbers = [images.paths.index(path) for path in first.images.paths]
    np.testing.assert_array_equal(images.images[numbers], first.images.images)
    np.testing.assert_array_equal(images.labels[numbers], first.images.labels)
    assert numbers == sorted(numbers)
    assert first.images.fingerprint != images.fingerprint


def test_a_sample_of_more_than_there_are_is_all() -> None:
    images = known(10, seed=0)
    assert sample(images, 11).images is images
    assert sample(images, None) == (images, images)
    with pytest.raises(SettingsError, match="limit=0: score at least 1 image"):
        sample(images, 0)


def test_images_to_train_on_are_none_to_test_with() -> None:
    training, test = known(60, seed=0), sample(known(20, seed=1), None)
    strange = odd(12, seed=2)
    with pytest.raises(DataError, match="the 60 test images are those to train on"):
        BenchImages(training, sample(training, 7), {})
    with pytest.raises(DataError, match="the 12 outliers to train on are the images of svhn"):
        BenchImages(training, test, {"svhn": sample(strange, 7)}, replace(strange))
    with pytest.raises(SettingsError, match="'test images' is called like the test"):
        BenchImages(training, test, {"test images": sample(strange, 7)})


def test_images_that_cannot_be_evaluated_or_fitted_are_refused_before_any_training() -> None:
    training, test = known(60, seed=0), known(20, seed=1)
    oods = {"textures": sample(odd(12, seed=2), None)}
    renamed = replace(test, classes=("zeppelin", *test.classes[1:]))
    with pytest.raises(DataError, match="1 of 10 classes of the test images .* 'zeppelin'"):
        BenchImages(training, sample(renamed, None), oods)
    labels = np.where(training.labels == 3, 4, training.labels)
    labels[0] = 3
    lonely = replace(training, labels=labels)
    with pytest.raises(DataError, match="of class 'cat' the number of training images is 1, "):
        BenchImages(lonely, sample(test, None), oods)
