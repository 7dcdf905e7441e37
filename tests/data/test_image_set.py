import numpy as np
import pytest

from oddone.data.image_set import split_off_class
from oddone.errors import SettingsError
from runs import tiny_source


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
