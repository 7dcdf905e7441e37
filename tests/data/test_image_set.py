from dataclasses import replace

import numpy as np
import pytest
import torch

from oddone.data.image_set import split_off_class, without_copies
from oddone.errors import DataError, DataWarning, SettingsError
from runs import tiny_source


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": torch.zeros(48, 3, 4, 4)}, r"images are a Tensor; give uint8 of \[images, 3"),
        ({"images": np.zeros((48, 3, 4, 4))}, r"images are float64 of \(48, 3, 4, 4\); give uint8"),
        ({"images": np.zeros((48, 4, 4, 3), np.uint8)}, r"images are uint8 of \(48, 4, 4, 3\)"),
        ({"labels": [0] * 48}, "labels are a list; give an array of int64"),
        ({"labels": np.zeros(48, np.int32)}, "labels are int32; give an array of int64"),
        ({"labels": np.zeros(47, np.int64)}, r"48 images and labels of \(47,\); give one"),
        ({"labels": np.full(48, 3)}, "labels are from 3 to 3, and 3 classes are named; number"),
        ({"labels": np.full(48, -2)}, "labels are from -2 to -2"),
        ({"paths": ["a"]}, "48 images and 1 paths; give one for each image"),
    ],
)
def test_images_and_labels_that_do_not_go_together_are_refused_when_they_are_put_together(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        replace(tiny_source(), **change)  # type: ignore[arg-type]


def test_of_copies_in_a_class_the_first_is_kept_and_a_picture_in_two_classes_is_told() -> None:
    source = tiny_source(images=6)
    assert without_copies(source).tolist() == [0, 1, 2, 3, 4, 5]
    copied = replace(source, images=source.images[[0, 1, 2, 0, 4, 1]])  # 1 and 5 are two classes
    assert copied.pictures[3] == copied.pictures[0] != copied.pictures[1]
    with (
        pytest.warns(DataWarning, match=r"1 of 6 images are copies .*, such as tiny\[3\]$"),
        pytest.warns(
            DataWarning,
            match=r"1 of 4 pictures .* tiny\[1\] in 'class 1' and tiny\[5\] in 'class 2'",
        ),
    ):
        assert without_copies(copied).tolist() == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("label", [0, 1, 2])
def test_a_class_is_split_off_and_the_others_keep_their_names_and_images(label: int) -> None:
    source = tiny_source()
    others, left_out = split_off_class(source, f"class {label}")
    assert others.classes == tuple(name for name in source.classes if name != f"class {label}")
    assert (left_out.classes, set(left_out.labels.tolist())) == ((), {-1})
    for part in (others, left_out):
        indices = [source.paths.index(path) for path in part.paths]
        assert np.array_equal(part.images, source.images[indices])
        assert len(part.labels) == len(indices)
    names = [others.classes[number] for number in others.labels]
    assert names == [source.classes[number] for number in source.labels if number != label]
    assert sorted([*others.paths, *left_out.paths]) == sorted(source.paths)
    assert len({source.fingerprint, others.fingerprint, left_out.fingerprint}) == 3


def test_a_class_that_cannot_be_left_out_is_named() -> None:
    with pytest.raises(SettingsError, match="no class 'clas 1' to leave out; did you mean 'class "):
        split_off_class(tiny_source(), "clas 1")
    with pytest.raises(SettingsError, match="'class 0' is the only class"):
        split_off_class(tiny_source(classes=1), "class 0")
