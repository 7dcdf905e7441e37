import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

import oracles
from oddone.encoders import Encoded
from oddone.training import TrainSettings
from oddone.training.batches import Batches, colour_views
from oddone.training.initialise import initial_network
from oddone.training.objective import NO_CLASS, Loss, Network, Rows, loss_of, uniform_cross_entropy
from runs import tiny_settings, tiny_source

ROWS = 12


def softmax(logits: Sequence[float]) -> list[float]:
    total = sum(math.exp(logit) for logit in logits)
    return [math.exp(logit) / total for logit in logits]


def slow_cross_entropy(logits: Sequence[Sequence[float]], labels: Sequence[int]) -> float:
    losses = [-math.log(softmax(row)[label]) for row, label in zip(logits, labels, strict=True)]
    return sum(losses) / len(losses)


def slow_exposure(logits: Sequence[Sequence[float]]) -> float:
    """Return the mean of H(U; p) = -sum_k 1/K log p_k, the outliers' loss of Hendrycks et al."""
    losses = [-sum(math.log(p) / len(row) for p in softmax(row)) for row in logits]
    return sum(losses) / len(losses)


def encoded_rows(settings: TrainSettings) -> tuple[Network, Encoded, Rows]:
    """Return a network of 3 classes, and two views each of six random posed images."""
    generator = torch.Generator().manual_seed(0)
    network = initial_network(tiny_source(), settings)
    encoded = Encoded(
        torch.randn(ROWS, network.feature_dim, generator=generator),
        torch.randn(ROWS, 8, generator=generator),
    )
    rows = Rows(
        torch.randint(3, (ROWS // 2,), generator=generator).repeat(2),
        torch.randint(4, (ROWS // 2,), generator=generator).repeat(2),
        torch.arange(ROWS // 2).repeat(2),
    )
    return network, encoded, rows


def loss(network: Network, encoded: Encoded, rows: Rows, settings: TrainSettings) -> Loss:
    return loss_of(network, encoded, rows, settings, generator=torch.Generator())


def logits_of(network: Network, encoded: Encoded) -> tuple[list[list[float]], list[list[float]]]:
    """Return what the two linear layers say of class and turn."""
    assert network.classifier is not None
    turned = network.pose_classifier
    return (
        network.classifier(encoded.features).tolist(),
        [] if turned is None else turned(encoded.features).tolist(),
    )


@pytest.mark.parametrize("rotations", ["task", "augmentation", "none"])
def test_joint_is_cross_entropy_plus_weighted_simclr(rotations: str) -> None:
    settings = tiny_settings(objective="joint", rotations=rotations, simclr_weight=0.3)
    network, encoded, rows = encoded_rows(settings)
    total, terms = loss(network, encoded, rows, settings)
    of_class, of_pose = logits_of(network, encoded)
    expected = {
        "class": slow_cross_entropy(of_class, rows.labels.tolist()),
        "simclr": oracles.simclr(
            encoded.embeddings.tolist(), rows.parents.tolist(), settings.loss.temperature
        ),
    }
    if rotations == "task":
        expected["pose"] = slow_cross_entropy(of_pose, rows.poses.tolist())
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(expected, rel=1e-5)
    weighted = expected["class"] + 0.5 * expected.get("pose", 0) + 0.3 * expected["simclr"]
    assert total.item() == pytest.approx(weighted, rel=1e-5)


@pytest.mark.parametrize("rotations", ["task", "none"])
def test_joint_without_weight_is_cross_entropy(rotations: str) -> None:
    joint = tiny_settings(objective="joint", rotations=rotations, simclr_weight=0.0)
    network, encoded, rows = encoded_rows(joint)
    plain = replace(joint, objective="cross-entropy")
    ours, theirs = (loss(network, encoded, rows, settings) for settings in (joint, plain))
    assert torch.equal(ours.total, theirs.total)


def test_joint_teaches_body_head_and_classifiers() -> None:
    settings = tiny_settings(objective="joint", rotations="task")
    network = initial_network(tiny_source(), settings)
    rows = encoded_rows(settings)[2]
    images = torch.rand(ROWS, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    loss(network, network(images), rows, settings).total.backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("rotations", ["task", "augmentation", "none"])
@pytest.mark.parametrize("siblings", [True, False])
def test_supclr_is_appendix_b_without_siblings_and_khosla_with_them(
    rotations: str, siblings: bool
) -> None:
    settings = tiny_settings(objective="supclr", rotations=rotations, supclr_siblings=siblings)
    network, encoded, rows = encoded_rows(settings)
    classes = rows.labels + 10 * rows.poses if rotations == "task" else rows.labels
    expected = oracles.supcon(
        encoded.embeddings.tolist(),
        classes.tolist(),
        rows.parents.tolist(),
        settings.loss.temperature,
        siblings=siblings,
    )
    total, terms = loss(network, encoded, rows, settings)
    assert total.item() == pytest.approx(expected, rel=1e-5)
    assert terms == {}


def test_supclr_as_printed_is_zero_where_no_class_has_two_images() -> None:
    settings = tiny_settings(objective="supclr", rotations="none", supclr_siblings=False)
    network, encoded, rows = encoded_rows(settings)
    alone = rows._replace(labels=rows.parents)
    assert loss(network, encoded, alone, settings).total == 0
    with_siblings = replace(settings, supclr_siblings=True)
    assert loss(network, encoded, alone, with_siblings).total > 0


@pytest.mark.parametrize("rotations", ["task", "none"])
def test_outliers_add_the_cross_entropy_to_the_uniform_distribution(rotations: str) -> None:
    settings = tiny_settings(objective="cross-entropy", rotations=rotations, outlier_weight=0.7)
    network, encoded, rows = encoded_rows(settings)
    odd = torch.arange(ROWS) % 3 == 1  # anywhere among the rows
    rows = rows._replace(labels=rows.labels.masked_fill(odd, NO_CLASS))
    total, terms = loss(network, encoded, rows, settings)
    of_class, of_pose = logits_of(network, encoded)
    normal = (~odd).nonzero()[:, 0].tolist()
    expected = {
        "class": slow_cross_entropy([of_class[i] for i in normal], rows.labels[normal].tolist()),
        "outliers": slow_exposure([of_class[i] for i in odd.nonzero()[:, 0].tolist()]),
    }
    if rotations == "task":
        poses = rows.poses[normal].tolist()
        expected["pose"] = slow_cross_entropy([of_pose[i] for i in normal], poses)
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(expected, rel=1e-5)
    weighted = expected["class"] + 0.5 * expected.get("pose", 0) + 0.7 * expected["outliers"]
    assert total.item() == pytest.approx(weighted, rel=1e-5)


@pytest.mark.parametrize("rotations", ["task", "none"])
def test_outliers_without_weight_leave_plain_cross_entropy(rotations: str) -> None:
    settings = tiny_settings(objective="cross-entropy", rotations=rotations, outlier_weight=0.0)
    network, encoded, rows = encoded_rows(settings)
    normal = slice(0, ROWS // 2)
    plain = loss(
        network,
        Encoded(*(each[normal] for each in encoded)),
        Rows(*(fact[normal] for fact in rows)),
        settings,
    )
    labels = rows.labels.clone()
    labels[ROWS // 2 :] = NO_CLASS
    exposed = loss(network, encoded, rows._replace(labels=labels), settings)
    torch.testing.assert_close(exposed.total, plain.total)


def test_being_undecided_about_outliers_is_best_and_costs_the_log_of_the_classes() -> None:
    undecided = torch.full((4, 5), 2.0, requires_grad=True)
    cost = uniform_cross_entropy(undecided)
    assert cost.item() == pytest.approx(math.log(5))
    cost.backward()
    assert undecided.grad is not None
    torch.testing.assert_close(undecided.grad, torch.zeros(4, 5))
    sure = torch.tensor([[0.0, 0.0, 0.0, 0.0, 9.0]])
    assert uniform_cross_entropy(sure) > cost


def test_exposure_knows_no_order_and_no_overflow() -> None:
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))
    shuffled = logits[[3, 1, 5, 0, 2, 4]][:, [2, 0, 3, 1]]
    torch.testing.assert_close(uniform_cross_entropy(shuffled), uniform_cross_entropy(logits))
    assert uniform_cross_entropy(1e30 * logits).isfinite()


def test_one_class_leaves_nothing_to_be_undecided_about() -> None:
    assert uniform_cross_entropy(torch.randn(3, 1)).item() == 0


def test_cross_entropy_beside_mcl_is_that_of_the_upright_rows() -> None:
    network, encoded, rows = _batch(tiny_settings(class_weight=2.0))
    plain = loss_of(network, encoded, rows, tiny_settings(), generator=torch.Generator())
    both = loss_of(
        network, encoded, rows, tiny_settings(class_weight=2.0), generator=torch.Generator()
    )
    upright = rows.poses == 0
    assert 0 < upright.sum() < len(upright)
    assert network.classifier is not None
    logits = network.classifier(encoded.features[upright]).tolist()
    mean = slow_cross_entropy(logits, rows.labels[upright].tolist())
    assert both.terms["class"].item() == pytest.approx(mean, rel=1e-5)
    assert both.total.item() == pytest.approx(plain.total.item() + 2 * mean, rel=1e-5)


def test_without_upright_rows_cross_entropy_beside_mcl_is_nothing() -> None:
    settings = tiny_settings(class_weight=2.0)
    network, encoded, rows = _batch(settings)
    rotated = rows._replace(poses=torch.full_like(rows.poses, 2))
    loss = loss_of(network, encoded, rotated, settings, generator=torch.Generator())
    assert loss.terms["class"].item() == 0
    assert loss.total.isfinite()


def _batch(settings: TrainSettings) -> tuple[Network, Encoded, Rows]:
    """Return a new network, what it makes of the first batch, and the rows of that."""
    source = tiny_source()
    batches, network = Batches(source, settings), initial_network(source, settings)
    views, rows = batches.make(0, torch.device("cpu"))
    with torch.no_grad():
        return network, network(colour_views(views)), rows
