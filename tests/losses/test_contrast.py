import math
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from batches import LossBatch, loss_of, make_batch
from oddone.losses import MCLSettings

# Small batches rarely meet Appendix A's conditions.
pytestmark = pytest.mark.filterwarnings("ignore::oddone.errors.SettingsWarning")


def test_the_gradient_by_the_similarity_of_partners_is_the_closed_form() -> None:
    """Eq. 23 with the numerator that differentiation gives, exp(alpha sim), not the printed one."""
    batch = make_batch(parents=6, classes=2, poses=1, dim=12)
    tau, alpha = 0.2, 0.5
    similarity = (
        torch.nn.functional.normalize(batch.embeddings)
        @ torch.nn.functional.normalize(batch.embeddings).mT
    )
    # Push one similarity alone: a symmetric matrix with unit diagonal is a Gram matrix, and its
    # Cholesky factor has just these similarities.
    gram = (0.5 * similarity + 0.5 * torch.eye(12)).requires_grad_()
    rows = torch.linalg.cholesky(gram)
    loss_of(batch, MCLSettings(temperature=tau, alpha=alpha), embeddings=rows).spa.backward()
    q = 0
    partners = (batch.labels == batch.labels[q]) & (batch.parents != batch.parents[q])
    r = int(partners.nonzero()[0, 0])
    expected, printed = 0.0, 0.0
    for one, other in ((q, r), (r, q)):  # sim(q, r) is sim(r, q): both rows' losses move
        others = batch.parents != batch.parents[one]
        ccm = torch.where(batch.labels == batch.labels[one], alpha, 1 / tau)
        denominator = (gram[one] * ccm).exp()[others].sum()
        partners = others & (batch.labels == batch.labels[one])
        attraction = 1 / (tau * partners.sum())
        p = (alpha * gram[one, other]).exp() / denominator
        p_spa = (gram[one, other] / tau).exp() / denominator
        expected += (alpha * p - attraction).item() / len(rows)
        printed += (alpha * p_spa - attraction).item() / len(rows)
    assert gram.grad is not None
    gradient = (gram.grad[q, r] + gram.grad[r, q]).item()
    assert gradient == pytest.approx(expected, rel=1e-9)
    assert gradient != pytest.approx(printed, rel=1e-3)


def dense_mcl(batch: LossBatch, settings: MCLSettings) -> tuple[Tensor, Tensor]:
    """Eq. 6 and 9 on whole matrices, differentiated by autograd."""
    rows = torch.nn.functional.normalize(batch.embeddings, dim=1)
    similarity = rows @ rows.mT
    itself = torch.eye(len(rows), dtype=torch.bool)
    siblings = batch.parents[:, None] == batch.parents
    mates = batch.labels[:, None] == batch.labels
    twins = mates & (batch.poses[:, None] == batch.poses)
    repel = torch.full_like(similarity, 1 / settings.temperature)
    repel = repel.masked_fill(mates, settings.beta).masked_fill(twins, settings.alpha)

    def contrast(attract: Tensor, absent: Tensor) -> Tensor:
        push = (repel * similarity).masked_fill(absent, -math.inf).logsumexp(dim=1)
        weights = attract / attract.sum(dim=1, keepdim=True).clamp(min=1)
        pull = (weights * similarity).sum(dim=1) / settings.temperature
        return torch.where(attract.any(dim=1), push - pull, 0).mean()

    return contrast(siblings & ~itself, itself), contrast(twins & ~siblings, siblings)


@pytest.mark.parametrize("classes", [1, 3, 10, 300])
def test_blocks_of_rows_equal_the_dense_form(classes: int) -> None:
    batch = make_batch(parents=450, classes=classes, poses=4, dim=32, dtype=torch.float32)
    settings = MCLSettings(spa_weight=0.5)
    embeddings = batch.embeddings.requires_grad_()
    ours = loss_of(batch, settings)
    (our_gradient,) = torch.autograd.grad(ours.total, embeddings)
    ccm, spa = dense_mcl(batch, settings)
    (dense_gradient,) = torch.autograd.grad(ccm + 0.5 * spa, embeddings)
    torch.testing.assert_close((ours.ccm, ours.spa), (ccm, spa), rtol=1e-5, atol=0)
    error = (our_gradient - dense_gradient).norm() / dense_gradient.norm()
    assert error < 1e-5


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("denominator", ["printed", "softmax"])
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0, 1e4])
def test_loss_and_gradient_are_finite_in_every_precision(
    dtype: torch.dtype, denominator: str, scale: float
) -> None:
    batch = make_batch(parents=20)
    embeddings = (batch.embeddings * scale).to(dtype).requires_grad_()
    terms = loss_of(batch, MCLSettings(denominator=denominator), embeddings=embeddings)
    terms.total.backward()
    assert terms.total.dtype == (dtype if dtype == torch.float64 else torch.float32)
    assert all(term.isfinite() for term in terms)
    assert embeddings.grad is not None
    assert embeddings.grad.isfinite().all()


@pytest.mark.parametrize("denominator", ["printed", "softmax"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_very_low_temperature_overflows_nothing(denominator: str, dtype: torch.dtype) -> None:
    batch = make_batch(parents=20, dtype=dtype)
    embeddings = batch.embeddings.requires_grad_()
    terms = loss_of(batch, MCLSettings(temperature=0.005, denominator=denominator))
    terms.total.backward()
    assert all(term.isfinite() for term in terms)
    assert embeddings.grad is not None
    assert embeddings.grad.isfinite().all()


def test_autocast_leaves_the_similarities_in_float32() -> None:
    batch = make_batch(parents=50, dim=64, dtype=torch.float32)
    expected = loss_of(batch, MCLSettings())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(loss_of(batch, MCLSettings()), expected)


def test_softmax_makes_every_pair_a_cross_entropy_and_never_negative() -> None:
    batch = make_batch(parents=3, classes=1, poses=1)
    batch.embeddings[:] = batch.embeddings[0]  # all rows alike: the easiest pairs there are
    printed, softmax = (
        loss_of(batch, MCLSettings()),
        loss_of(batch, MCLSettings(denominator="softmax")),
    )
    assert printed.total < 0
    assert softmax.ccm > 0
    assert softmax.spa > 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads peak memory from /proc")
def test_memory_grows_with_rows_not_with_rows_squared(run_python: Callable[[str], str]) -> None:
    """At 32,768 rows one float32 matrix of rows x rows would be 4.3 GB."""
    before, after = run_python(
        """
        import torch
        from oddone.losses import MCLSettings, mcl_loss

        def print_peak_kibibytes():
            with open("/proc/self/status") as status:
                print(next(line for line in status if line.startswith("VmHWM")).split()[1])

        rows = 32_768
        parents = torch.arange(rows // 2).repeat(2)
        embeddings = torch.randn(rows, 8, requires_grad=True)
        print_peak_kibibytes()
        settings = MCLSettings(alpha=0.01)
        mcl_loss(embeddings, parents % 100, parents % 4, parents, settings).total.backward()
        print_peak_kibibytes()
        """
    ).split()
    assert int(after) - int(before) < 400_000
