import pytest
import torch
from torch import Tensor

from oddone.verdicts import Verdict, Verdicts

PROBABILITIES = torch.tensor([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])


def whole() -> Verdicts:
    """Return verdicts on three images, with all that can be known."""
    return Verdicts(
        torch.tensor([1.5, -2.0, 4.0]),
        torch.tensor([1, 0, 0]),
        torch.tensor([False, False, True]),
        torch.tensor([0.5, 0.75, 0.25]),
        PROBABILITIES,
    )


def bare() -> Verdicts:
    """Return verdicts on two images, with no more than there must be."""
    return Verdicts(torch.tensor([0.5, 8.0]), torch.tensor([3, 2]))


def columns(verdicts: Verdicts) -> dict[str, Tensor | None]:
    return vars(verdicts)


def test_an_index_picks_the_verdict_on_one_image() -> None:
    verdict = whole()[2]
    assert verdict[:-1] == (4.0, 0, True, 0.25)
    assert verdict.probabilities is not None
    assert torch.equal(verdict.probabilities, PROBABILITIES[2])
    assert [type(value) for value in verdict[:-1]] == [float, int, bool, float]


def test_what_is_not_known_is_none() -> None:
    assert bare()[1] == Verdict(8.0, 2, anomalous=None, p_value=None, probabilities=None)


def test_negative_indices_count_from_the_end_and_others_are_refused() -> None:
    assert whole()[-1].score == whole()[2].score
    with pytest.raises(IndexError):
        whole()[3]


def test_all_images_come_one_after_the_other() -> None:
    assert len(whole()) == 3
    assert [verdict.score for verdict in whole()] == [1.5, -2, 4]
    assert [verdict.label for verdict in whole()] == [1, 0, 0]
    assert [verdict.anomalous for verdict in whole()] == [False, False, True]
    assert list(bare()) == [bare()[0], bare()[1]]


def test_parts_are_put_together_in_order() -> None:
    together = Verdicts.concatenate([whole(), whole()])
    assert len(together) == 6
    for name, column in columns(together).items():
        part = columns(whole())[name]
        assert part is not None
        assert column is not None
        assert torch.equal(column, torch.cat([part, part]))
        assert column.dtype == part.dtype


def test_what_one_part_does_not_know_is_not_known_of_all() -> None:
    together = Verdicts.concatenate([whole(), bare()])
    assert together.scores.tolist() == [1.5, -2, 4, 0.5, 8]
    assert together.labels.tolist() == [1, 0, 0, 3, 2]
    assert (together.anomalous, together.p_values, together.probabilities) == (None, None, None)


def test_each_column_is_kept_that_all_parts_have() -> None:
    scored = Verdicts(torch.zeros(1), torch.zeros(1).long(), p_values=torch.ones(1))
    together = Verdicts.concatenate([scored, whole()])
    assert together.anomalous is None
    assert together.probabilities is None
    assert together.p_values is not None
    assert together.p_values.tolist() == [1, 0.5, 0.75, 0.25]


def test_one_part_is_itself() -> None:
    for name, column in columns(Verdicts.concatenate([bare()])).items():
        part = columns(bare())[name]
        assert (column is None) if part is None else torch.equal(column, part)


def test_no_parts_are_no_verdicts() -> None:
    none = Verdicts.concatenate([])
    assert len(none) == 0
    assert list(none) == []
    assert none.scores.shape == none.labels.shape == (0,)
    assert none.scores.is_floating_point()
    assert none.labels.dtype == torch.long
    assert Verdicts.concatenate([none, bare()]).labels.tolist() == [3, 2]


def test_a_part_without_images_changes_nothing() -> None:
    empty = Verdicts(
        torch.empty(0),
        torch.empty(0, dtype=torch.long),
        torch.empty(0, dtype=torch.bool),
        torch.empty(0),
        torch.empty(0, 2),
    )
    together = Verdicts.concatenate([empty, whole(), empty])
    for name, column in columns(whole()).items():
        assert column is not None
        ours = columns(together)[name]
        assert ours is not None
        assert torch.equal(ours, column)
