import numpy as np
import pytest

from oddone.data.fashion import CLASSES, EMBEDDED, read_fashion
from oddone.errors import DataError


@pytest.mark.parametrize(("split", "per_class"), [("train", 600), ("test", 200)])
def test_the_embedded_images_are_balanced(split: str, per_class: int) -> None:
    fashion = read_fashion("", split)
    assert fashion.images.shape == (10 * per_class, 3, 28, 28)
    assert np.bincount(fashion.labels).tolist() == [per_class] * 10
    assert len(fashion.paths) == len(fashion)


def test_the_order_is_the_official_one() -> None:
    assert read_fashion("", "train").labels[:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]
    assert read_fashion("", "test").labels[:10].tolist() == [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]


def test_the_images_are_grey_pictures_in_three_equal_channels() -> None:
    images = read_fashion("", "test").images
    assert (images[:, 0] == images[:, 1]).all()
    assert (images[:, 0] == images[:, 2]).all()
    assert images.flags.c_contiguous
    assert 60 < images.mean() < 90  # of Fashion-MNIST as a whole: 73
    assert images.max() == 255


def test_a_trouser_is_darker_between_the_legs_than_on_them() -> None:
    fashion = read_fashion("", "train")
    trouser = fashion.images[fashion.labels == CLASSES.index("trouser"), 0].mean(axis=0)
    assert trouser[24, 14] < trouser[24, 10]


def test_known_and_unseen_share_out_all_images() -> None:
    everything = read_fashion("", "test")
    known, unseen = read_fashion("known", "test"), read_fashion("unseen", "test")
    assert len(known) + len(unseen) == len(everything)
    assert unseen.classes == ("sneaker", "bag")
    assert sorted(known.classes + unseen.classes) == sorted(CLASSES)
    assert np.bincount(known.labels).tolist() == [200] * 8
    assert np.bincount(unseen.labels).tolist() == [200] * 2


def test_renumbered_labels_still_name_the_same_images() -> None:
    everything, known = read_fashion("", "train"), read_fashion("known", "train")
    for name in ("t-shirt", "ankle boot"):
        of_all = everything.images[everything.labels == everything.classes.index(name)]
        of_known = known.images[known.labels == known.classes.index(name)]
        assert (of_all == of_known).all()


def test_a_path_says_which_image_it_is() -> None:
    assert read_fashion("known", "test").paths[17] == "fashion:known#test[17]"
    assert read_fashion("", "train").paths[0] == "fashion#train[0]"


def test_the_fingerprint_is_stable_and_tells_parts_and_splits_apart() -> None:
    fingerprints = [
        read_fashion(part, split).fingerprint
        for part in ("", "known", "unseen")
        for split in ("train", "test")
    ]
    assert len(set(fingerprints)) == 6
    assert {len(fingerprint) for fingerprint in fingerprints} == {16}
    assert read_fashion("", "train").fingerprint == fingerprints[0]


def test_an_unknown_part_or_split_is_answered_with_the_choices(as_shipped: None) -> None:  # noqa: ARG001
    with pytest.raises(DataError, match="no part 'shoes'; write fashion, fashion:known"):
        read_fashion("shoes", "train")
    with pytest.raises(DataError, match="no split 'val'; choose train or test"):
        read_fashion("", "val")  # type: ignore[arg-type]


def test_the_embedded_file_is_small_and_its_licence_lies_beside_it() -> None:
    assert EMBEDDED.stat().st_size < 4_000_000
    licence = EMBEDDED.with_name("fashion.LICENSE.txt").read_text()
    assert "Copyright (c) 2017 Zalando SE" in licence
    assert "MIT License" in licence
