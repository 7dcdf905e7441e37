import pytest

from oddone.errors import closest_match, did_you_mean

CHOICES = ["cifar10", "SVHN", "folder"]


@pytest.mark.parametrize(
    ("word", "closest"),
    [
        ("cifar", "cifar10"),
        ("flodr", "folder"),
        ("svnh", "SVHN"),
        ("FOLDER", "folder"),
        ("folder", "folder"),
        ("textures", None),
        ("", None),
    ],
)
def test_the_closest_choice_is_found_whatever_its_case(word: str, closest: str | None) -> None:
    assert closest_match(word, CHOICES) == closest


def test_no_choice_is_close_where_there_are_none() -> None:
    assert closest_match("cifar10", []) is None


def test_a_mistyped_word_gets_a_suggestion_and_any_other_the_rest_of_the_message() -> None:
    otherwise = "write cifar10 or svhn"
    assert did_you_mean("cifra10", CHOICES, otherwise=otherwise) == "did you mean 'cifar10'?"
    assert did_you_mean("textures", CHOICES, otherwise=otherwise) == otherwise
