import logging
import math
import re
import warnings
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings as settings_of_hypothesis, strategies as st
from torch import Tensor

import oracles
from batches import LossBatch, batches, loss_of, make_batch, seeded
from oddone.errors import DataError, SettingsError, SettingsWarning
from oddone.losses import MCLLoss, MCLSettings, mcl_loss, simclr_loss
from oddone.losses.masks import draw_partner_images, draw_partners, float_ids, joint_labels
from oddone.presets import authors

# Small batches rarely meet Appendix A's conditions; one test below is about the warning itself.
pytestmark = pytest.mark.filterwarnings("ignore::oddone.errors.SettingsWarning")

settings_strategy = st.builds(
    MCLSettings,
    temperature=st.sampled_from([0.07, 0.2, 0.5]),
    alpha=st.sampled_from([0.01, 0.05, 1.0]),
    beta=st.sampled_from([1.0, 2.0]),
    spa_weight=st.sampled_from([0.0, 0.5, 1.0]),
    denominator=st.sampled_from(["printed", "softmax"]),
    attraction=st.sampled_from(["expectation", "sampled", "sampled-image"]),
    samples=st.integers(1, 3),
    clamp=st.booleans(),
    spa_siblings=st.sampled_from(["absent", "ones"]),
)


@given(batches(), settings_strategy)
def test_mcl_is_the_papers_equations(batch: LossBatch, settings: MCLSettings) -> None:
    if len(batch.parents) < 2:
        return  # the equations' denominators are empty
    drawn = None
    if settings.attraction != "expectation":
        draw = draw_partners if settings.attraction == "sampled" else draw_partner_images
        drawn = draw(
            float_ids(joint_labels(batch.labels, batch.poses), batch.embeddings),
            float_ids(batch.parents, batch.embeddings),
            settings.samples,
            generator=seeded(),
        ).tolist()
    ccm, spa = oracles.mcl(
        *(tensor.tolist() for tensor in batch),
        tau=settings.temperature,
        alpha=settings.alpha,
        beta=settings.beta,
        softmax=settings.denominator == "softmax",
        clamp=settings.clamp,
        sibling_ones=settings.spa_siblings == "ones",
        drawn=drawn,
    )
    ours = loss_of(batch, settings)
    assert ours.ccm.item() == pytest.approx(ccm, rel=1e-7, abs=1e-7)
    assert ours.spa.item() == pytest.approx(spa, rel=1e-7, abs=1e-7)
    assert ours.total.item() == pytest.approx(ccm + settings.spa_weight * spa, rel=1e-7, abs=1e-7)


@given(batches())
def test_without_masks_and_attraction_mcl_is_simclr(batch: LossBatch) -> None:
    settings = MCLSettings(temperature=0.2, alpha=5.0, beta=5.0, spa_weight=0.0)
    expected = simclr_loss(batch.embeddings, batch.parents, 0.2)
    torch.testing.assert_close(loss_of(batch, settings).total, expected)


@given(batches())
def test_with_the_highest_beta_mcl_is_mcl_on_joint_labels(batch: LossBatch) -> None:
    settings = MCLSettings(beta=5.0)
    joined = mcl_loss(
        batch.embeddings, joint_labels(batch.labels, batch.poses), None, batch.parents, settings
    )
    torch.testing.assert_close(loss_of(batch, settings), joined)


@given(batches(), settings_strategy.filter(lambda s: s.attraction == "expectation"))
def test_the_order_of_rows_does_not_matter(batch: LossBatch, settings: MCLSettings) -> None:
    shuffled = batch.take(torch.randperm(len(batch.parents), generator=seeded(1)))
    torch.testing.assert_close(loss_of(shuffled, settings), loss_of(batch, settings))


@given(batches(), settings_strategy)
def test_the_names_of_classes_poses_and_parents_do_not_matter(
    batch: LossBatch, settings: MCLSettings
) -> None:
    renamed = batch._replace(
        labels=10 - 3 * batch.labels, poses=batch.poses + 2**40, parents=-batch.parents
    )
    settings = replace(settings, attraction="expectation")  # the draws follow the names
    torch.testing.assert_close(loss_of(renamed, settings), loss_of(batch, settings))


@given(batches(), settings_strategy, st.floats(1e-3, 1e3))
def test_rotating_and_scaling_the_embedding_space_does_not_matter(
    batch: LossBatch, settings: MCLSettings, scale: float
) -> None:
    dim = batch.embeddings.shape[1]
    turn = torch.linalg.qr(torch.randn(dim, dim, dtype=torch.float64, generator=seeded(1))).Q
    turned = loss_of(batch, settings, embeddings=scale * batch.embeddings @ turn)
    torch.testing.assert_close(turned, loss_of(batch, settings))


@settings_of_hypothesis(max_examples=25)
@given(batches(), settings_strategy.filter(lambda s: s.temperature == 0.2))
def test_the_gradients_of_total_and_terms_are_right(
    batch: LossBatch, settings: MCLSettings
) -> None:
    assert torch.autograd.gradcheck(
        lambda embeddings: tuple(loss_of(batch, settings, embeddings=embeddings)),
        batch.embeddings.requires_grad_(),
    )


def test_one_class_alone_is_the_papers_equations_and_tells_poses_apart() -> None:
    batch = make_batch(parents=12, classes=1, poses=4)
    ccm, spa = oracles.mcl(*(tensor.tolist() for tensor in batch), tau=0.2, alpha=0.05, beta=2.5)
    ours = loss_of(batch, MCLSettings())
    assert (ours.ccm.item(), ours.spa.item()) == pytest.approx((ccm, spa), rel=1e-7)

    embeddings = batch.embeddings.requires_grad_()
    for _ in range(200):
        (gradient,) = torch.autograd.grad(
            loss_of(batch, MCLSettings(), embeddings=embeddings).total, embeddings
        )
        embeddings = (embeddings - gradient).detach().requires_grad_()
    rows = torch.nn.functional.normalize(embeddings.detach(), dim=1)
    cosines, same_pose = rows @ rows.mT, batch.poses[:, None] == batch.poses
    assert cosines[same_pose].min() > cosines[~same_pose].max() + 0.5


def test_many_samples_approach_the_expectation() -> None:
    batch = make_batch(parents=20)
    exact = loss_of(batch, MCLSettings()).spa
    sampled = loss_of(batch, MCLSettings(attraction="sampled", samples=5000)).spa
    assert sampled.item() == pytest.approx(exact.item(), rel=5e-3)
    assert sampled.item() != exact.item()


@pytest.mark.parametrize("views", [1, 2, 3])
def test_with_one_partner_image_the_same_view_of_it_is_attracted(views: int) -> None:
    """Two images of one class: whatever is drawn, row n of one attracts row n of the other."""
    batch = make_batch(parents=2, classes=1, poses=1, views=views)
    one, other = batch.parents.unique().tolist()
    partner_images = {one: [other], other: [one]}
    _, spa = oracles.mcl(
        *(tensor.tolist() for tensor in batch),
        tau=0.2,
        alpha=0.05,
        beta=2.5,
        drawn=oracles.same_views(batch.parents.tolist(), partner_images),
    )
    ours = loss_of(batch, MCLSettings(attraction="sampled-image")).spa
    assert ours.item() == pytest.approx(spa, rel=1e-9)


def test_the_authors_settings_are_the_cross_entropy_of_their_code() -> None:
    """Their CCM and SPA terms on whole matrices, for two views of an image side by side."""
    settings = authors().loss
    batch = make_batch(parents=24, classes=2, poses=2)
    batch = batch.take(batch.parents.argsort(stable=True))
    rows = torch.nn.functional.normalize(batch.embeddings, dim=1)
    similarity = (rows @ rows.mT).clamp(min=1e-7)
    itself = torch.eye(48, dtype=torch.bool)
    siblings = batch.parents[:, None] == batch.parents
    mates = batch.labels[:, None] == batch.labels
    repel = torch.full_like(similarity, 1 / settings.temperature).masked_fill(mates, settings.beta)
    twins = mates & (batch.poses[:, None] == batch.poses)
    repel = repel.masked_fill(twins, settings.alpha)

    def cross_entropy(repel: Tensor, targets: Tensor) -> Tensor:
        repel = repel.scatter(1, targets[:, None], 1 / settings.temperature)
        logits = (similarity * repel).masked_fill(itself, -math.inf)
        return torch.nn.functional.cross_entropy(logits, targets)

    drawn = draw_partner_images(
        float_ids(joint_labels(batch.labels, batch.poses), batch.embeddings),
        float_ids(batch.parents, batch.embeddings),
        1,
        generator=seeded(),
    )[::2, 0]
    assert (drawn % 2 == 0).all()  # a first view attracts a first view
    partner_rows = torch.stack((drawn, drawn + 1), dim=1).flatten()
    ours = loss_of(batch, settings)
    torch.testing.assert_close(ours.ccm, cross_entropy(repel, torch.arange(48) ^ 1))
    torch.testing.assert_close(
        ours.spa, cross_entropy(repel.masked_fill(siblings, 0), partner_rows)
    )


@given(batches(), settings_strategy, st.integers(0, 9))
def test_the_order_of_parents_does_not_matter_to_sampled_images(
    batch: LossBatch, settings: MCLSettings, seed: int
) -> None:
    settings = replace(settings, attraction="sampled-image")
    shuffled, _ = batch.shuffle_parents(seed)
    torch.testing.assert_close(loss_of(shuffled, settings), loss_of(batch, settings))


def test_numbering_all_views_from_the_other_end_does_not_matter_to_sampled_images() -> None:
    batch = make_batch(parents=30, views=3)
    settings = MCLSettings(attraction="sampled-image")
    reversed_rows = batch.take(torch.arange(len(batch.parents)).flip(0))
    torch.testing.assert_close(loss_of(reversed_rows, settings), loss_of(batch, settings))


@pytest.mark.parametrize("attraction", ["expectation", "sampled", "sampled-image"])
def test_without_any_partner_spa_is_zero_and_so_is_its_gradient(attraction: str) -> None:
    batch = make_batch(parents=5)._replace(labels=make_batch(parents=5).parents)
    embeddings = batch.embeddings.requires_grad_()
    terms = loss_of(batch, MCLSettings(attraction=attraction))
    (gradient,) = torch.autograd.grad(terms.spa, embeddings)
    assert terms.ccm > 0
    assert terms.spa == 0
    assert (gradient == 0).all()


@pytest.mark.parametrize("attraction", ["sampled", "sampled-image"])
def test_the_same_seed_draws_the_same_partners(attraction: str) -> None:
    batch = make_batch()
    settings = MCLSettings(attraction=attraction)
    assert loss_of(batch, settings) == loss_of(batch, settings)
    others = [mcl_loss(*batch, settings, generator=seeded(s)).spa.item() for s in range(1, 5)]
    assert len(set(others)) > 1


@pytest.mark.parametrize("attraction", ["sampled", "sampled-image"])
def test_sampling_without_a_generator_names_the_fix(attraction: str) -> None:
    with pytest.raises(SettingsError, match=f"'{attraction}' draws.*pass mcl_loss a torch"):
        mcl_loss(*make_batch(), MCLSettings(attraction=attraction))


def test_a_row_without_partner_adds_nothing_and_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batch = make_batch(parents=4, classes=1, poses=1)
    lonely = make_batch(parents=1, views=1, seed=9)
    mixed = LossBatch(
        torch.cat((batch.embeddings, lonely.embeddings)),
        torch.cat((batch.labels, lonely.labels + 100)),
        torch.cat((batch.poses, lonely.poses)),
        torch.cat((batch.parents, lonely.parents + 1000)),
    )
    with caplog.at_level(logging.INFO, logger="oddone"):
        loss_of(mixed, MCLSettings())
    assert "of 9 rows, 1 have no sibling (CCM) and 1 no partner (SPA)" in caplog.text


@pytest.mark.parametrize("attraction", ["expectation", "sampled", "sampled-image"])
def test_a_batch_without_any_row_has_loss_zero(attraction: str) -> None:
    empty = make_batch().take(torch.empty(0, dtype=torch.long))
    embeddings = empty.embeddings.requires_grad_()
    terms = loss_of(empty, MCLSettings(attraction=attraction))
    terms.total.backward()
    assert terms == (0, 0, 0)
    assert embeddings.grad is not None


def test_the_interval_of_alpha_is_the_papers() -> None:
    low, high = MCLSettings().alpha_range(batch_size=1024, classes=40)
    assert high == pytest.approx(0.098, abs=5e-4)
    assert low == pytest.approx(1 / (0.2 * 2 * 2046))
    assert MCLSettings(spa_weight=0.0).alpha_range(1024, 40).low == 0
    four_views = MCLSettings().alpha_range(1024, 40, views=4)
    assert four_views.high == pytest.approx(high / 2)


@pytest.mark.parametrize(("batch_size", "classes"), [(1, 1), (10, 0)])
def test_the_interval_of_alpha_needs_a_batch(batch_size: int, classes: int) -> None:
    with pytest.raises(SettingsError, match="at least 2 posed images"):
        MCLSettings().alpha_range(batch_size, classes)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("alpha", "effect"),
    [(0.001, "pull each class into one point"), (2.0, "push the rows of a class apart")],
)
def test_an_alpha_outside_its_interval_warns_once(alpha: float, effect: str) -> None:
    batch = make_batch(parents=40, classes=2, poses=1)
    settings = MCLSettings(alpha=alpha)
    low, high = settings.alpha_range(batch_size=40, classes=2)
    interval = re.escape(f"[{low:.3g}, {high:.3g})")
    with pytest.warns(SettingsWarning, match=f"alpha={alpha:g} is outside {interval}.*{effect}"):
        loss_of(batch, settings)
    loss_of(batch, settings)


@pytest.mark.filterwarnings("error")
def test_an_alpha_inside_its_interval_or_without_spa_does_not_warn() -> None:
    batch = make_batch(parents=40, classes=2, poses=1)
    loss_of(batch, MCLSettings(alpha=0.05))
    loss_of(batch, MCLSettings(alpha=2.0, spa_weight=0.0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alpha": 0.0}, "alpha=0.0: choose it above 0 and at most beta=2.5"),
        ({"alpha": 3.0}, "alpha=3.0"),
        ({"alpha": math.nan}, "alpha=nan"),
        ({"beta": 5.1}, "beta=5.1: choose it above 0 and at most 1/temperature=5.0"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"spa_weight": -1.0}, "spa_weight=-1.0"),
        ({"samples": 0}, "samples=0"),
        ({"denominator": "sofmax"}, "denominator='sofmax': choose 'printed' or 'softmax'"),
        ({"attraction": "all"}, "attraction='all'"),
        ({"spa_siblings": "maybe"}, "spa_siblings='maybe'"),
    ],
)
@pytest.mark.usefixtures("as_shipped")
def test_settings_that_contradict_are_refused_at_birth(
    wrong: dict[str, float | str], message: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        MCLSettings(**wrong)


def test_settings_are_values() -> None:
    assert MCLSettings() == MCLSettings(temperature=0.2, alpha=0.05, beta=2.5, spa_weight=1.0)
    assert (
        replace(MCLSettings(), alpha=5.0, beta=5.0).beta == 5
    )  # the bounds themselves are allowed


@pytest.mark.usefixtures("as_shipped")
def test_rows_that_disagree_about_their_parent_are_refused() -> None:
    ids = torch.tensor([0, 0])
    with pytest.raises(DataError, match="give each pose of an image its own parent"):
        mcl_loss(torch.ones(2, 2), ids, torch.tensor([0, 1]), ids, MCLSettings())
    with pytest.raises(DataError, match="poses has shape"):
        mcl_loss(torch.ones(2, 2), ids, torch.tensor([0]), ids, MCLSettings())


def test_the_module_is_the_function() -> None:
    batch = make_batch()
    settings = MCLSettings(attraction="sampled", alpha=0.1)
    ours = MCLLoss(settings)(*batch, generator=seeded())
    torch.testing.assert_close(ours, loss_of(batch, settings))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SettingsWarning)
        torch.testing.assert_close(MCLLoss()(*batch), loss_of(batch, MCLSettings()))
