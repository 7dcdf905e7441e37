import math

import pytest
import torch
from hypothesis import given
from pytorch_metric_learning.losses import NTXentLoss
from torch import nn

import oracles
from batches import LossBatch, batches, make_batch
from oddone.errors import DataError, SettingsError
from oddone.losses import SimCLRLoss, simclr_loss


@given(batches())
def test_simclr_is_the_papers_equation(batch: LossBatch) -> None:
    if len(batch.parents) < 2:
        return  # the equation's denominator is empty
    expected = oracles.simclr(batch.embeddings.tolist(), batch.parents.tolist(), tau=0.3)
    ours = simclr_loss(batch.embeddings, batch.parents, temperature=0.3)
    assert ours.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_simclr_is_cross_entropy_that_picks_the_sibling() -> None:
    rows = nn.functional.normalize(make_batch(parents=4).embeddings, dim=1)
    logits = (5 * rows @ rows.mT).masked_fill(torch.eye(8, dtype=torch.bool), -math.inf)
    expected = nn.functional.cross_entropy(logits, torch.arange(8).roll(4))
    torch.testing.assert_close(simclr_loss(rows, torch.arange(4).repeat(2), 0.2), expected)


def test_simclr_agrees_with_pytorch_metric_learning() -> None:
    batch = make_batch(parents=60, dim=16, dtype=torch.float32)
    expected = NTXentLoss(temperature=0.2)(batch.embeddings, batch.parents)
    torch.testing.assert_close(simclr_loss(batch.embeddings, batch.parents, 0.2), expected)


def test_a_parent_with_a_single_view_adds_zero_to_the_mean_over_all_rows() -> None:
    batch = make_batch(parents=1, views=1).embeddings
    pair = make_batch(parents=1, views=2, seed=1).embeddings
    parents = torch.tensor([0, 1, 1])
    rows = torch.cat((batch, pair))
    expected = oracles.simclr(rows.tolist(), parents.tolist(), tau=0.2)
    assert simclr_loss(rows, parents, 0.2).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("rows", [0, 1])
def test_without_any_pair_the_loss_is_zero_and_so_is_its_gradient(rows: int) -> None:
    embeddings = torch.ones(rows, 3, requires_grad=True)
    loss = simclr_loss(embeddings, torch.arange(rows), 0.2)
    loss.backward()
    assert loss.item() == 0
    assert embeddings.grad is not None
    assert (embeddings.grad == 0).all()


def test_the_gradient_is_right() -> None:
    batch = make_batch(views=3)
    embeddings = batch.embeddings.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: simclr_loss(z, batch.parents, 0.2), embeddings)


def test_the_module_is_the_function() -> None:
    batch = make_batch()
    ours = SimCLRLoss(temperature=0.4)(batch.embeddings, batch.parents)
    torch.testing.assert_close(ours, simclr_loss(batch.embeddings, batch.parents, 0.4))


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_a_temperature_that_is_no_positive_number_is_refused(temperature: float) -> None:
    with pytest.raises(SettingsError, match="temperature="):
        simclr_loss(torch.ones(2, 2), torch.zeros(2, dtype=torch.long), temperature)


@pytest.mark.usefixtures("as_shipped")
def test_parents_of_the_wrong_length_are_refused() -> None:
    with pytest.raises(DataError, match="parents has shape"):
        simclr_loss(torch.ones(2, 2), torch.zeros(3, dtype=torch.long), 0.2)
