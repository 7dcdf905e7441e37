import pytest
import torch
from hypothesis import given, strategies as st
from pytorch_metric_learning.losses import SupConLoss as PeerSupConLoss

import oracles
from batches import LossBatch, batches, make_batch
from oddone.errors import DataError
from oddone.losses import SupConLoss, simclr_loss, supcon_loss


@given(batches(), st.booleans())
def test_supcon_is_the_papers_equation(batch: LossBatch, siblings: bool) -> None:
    if len(batch.parents) < 2:
        return  # the equation's denominator is empty
    expected = oracles.supcon(
        batch.embeddings.tolist(),
        batch.labels.tolist(),
        batch.parents.tolist(),
        tau=0.3,
        siblings=siblings,
    )
    ours = supcon_loss(batch.embeddings, batch.labels, batch.parents, 0.3, siblings=siblings)
    assert ours.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_supcon_agrees_with_pytorch_metric_learning() -> None:
    batch = make_batch(parents=400, classes=7, dim=16, dtype=torch.float32)
    expected = PeerSupConLoss(temperature=0.1)(batch.embeddings, batch.labels)
    torch.testing.assert_close(
        supcon_loss(batch.embeddings, batch.labels, batch.parents, 0.1), expected
    )


def test_supcon_on_classes_of_one_parent_is_simclr() -> None:
    batch = make_batch(views=3)
    ours = supcon_loss(batch.embeddings, batch.parents, batch.parents, 0.2)
    torch.testing.assert_close(ours, simclr_loss(batch.embeddings, batch.parents, 0.2))


def test_without_siblings_classes_of_one_parent_have_nobody_to_attract() -> None:
    batch = make_batch()
    assert supcon_loss(batch.embeddings, batch.parents, batch.parents, 0.2, siblings=False) == 0


@pytest.mark.parametrize("siblings", [True, False])
def test_the_gradient_is_right(siblings: bool) -> None:
    batch = make_batch(views=3)
    embeddings = batch.embeddings.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda z: supcon_loss(z, batch.labels, batch.parents, 0.2, siblings=siblings), embeddings
    )


def test_the_module_is_the_function() -> None:
    batch = make_batch()
    ours = SupConLoss(0.4, siblings=False)(batch.embeddings, batch.labels, batch.parents)
    expected = supcon_loss(batch.embeddings, batch.labels, batch.parents, 0.4, siblings=False)
    torch.testing.assert_close(ours, expected)


def test_a_parent_with_two_labels_is_refused() -> None:
    with pytest.raises(DataError, match="parent 0 have different labels"):
        supcon_loss(torch.ones(2, 2), torch.tensor([0, 1]), torch.tensor([0, 0]), 0.2)
