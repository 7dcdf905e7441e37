import pytest

from oddone.data.class_names import check_class_names, class_name_faults
from oddone.errors import DataError


@pytest.mark.parametrize(
    "name",
    ["cat", "Äpfel & Birnen", "猫　犬", "caf\udce9", "می‌خواهم", "👨‍🌾", "=1+1", "a, b"],
)
def test_what_a_folder_may_be_called_is_a_name(name: str) -> None:
    assert list(class_name_faults((name, "other"))) == []


@pytest.mark.parametrize("name", ["", " ", "\u3000"])
def test_a_class_has_a_name(name: str) -> None:
    with pytest.raises(DataError, match="a class has the empty name '.*'; rename its folder or"):
        check_class_names(("cat", name))


@pytest.mark.parametrize(
    "mark", ["\x1b", "\x07", "\n", "\r", "\0", "\x7f", "\x9b", "\u2028", "\u202e"]
)
def test_no_name_has_characters_that_change_what_is_shown(mark: str) -> None:
    with pytest.raises(DataError, match=r"the class 'c\\\w+at' has control characters") as caught:
        check_class_names((f"c{mark}at", "dog"))
    assert str(caught.value).isprintable()


def test_no_two_classes_share_a_name_and_none_is_longer_than_a_path() -> None:
    assert list(class_name_faults(("a", "b", "a", "c" * 4097))) == [
        "the class 'a' is there twice",
        "a class has a name of 4,097 characters",
    ]
