from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.spatial import distance as scipy_distance
from sklearn.covariance import OAS, EmpiricalCovariance, shrunk_covariance
from torch import Tensor

import oracles
from oddone.density import Gaussians, Moments, tied_oas_share
from oddone.errors import DataError, SettingsError


def clouds(
    rows: int = 60, groups: int = 3, dim: int = 4, *, offset: float = 0.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Return correlated embeddings around one centre per group, and their groups."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(rows, dim, dtype=torch.float64, generator=generator)
    mix = torch.randn(groups, dim, dim, dtype=torch.float64, generator=generator)
    centre = torch.randn(groups, dim, dtype=torch.float64, generator=generator)
    group = torch.arange(rows)[torch.randperm(rows, generator=generator)] % groups
    embeddings = torch.einsum("rde,re->rd", mix[group], noise) + centre[group] + offset
    return embeddings, group


def assert_moments_close(ours: Moments, theirs: Moments, rtol: float = 1e-9) -> None:
    assert torch.equal(ours.count, theirs.count)
    torch.testing.assert_close(ours.mean, theirs.mean, rtol=rtol, atol=1e-12)
    torch.testing.assert_close(ours.scatter, theirs.scatter, rtol=rtol, atol=1e-9)


# --- Moments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 4, 5])
def test_moments_are_count_mean_and_scatter(dim: int) -> None:
    embeddings, groups = clouds(dim=dim)
    moments = Moments.of(embeddings, groups, 3)
    for group in range(3):
        rows = embeddings[groups == group]
        mean, covariance = oracles.mean_and_covariance(rows.tolist())
        assert moments.count[group] == len(rows)
        torch.testing.assert_close(moments.mean[group].tolist(), mean)
        torch.testing.assert_close((moments.scatter[group] / len(rows)).tolist(), covariance)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 1000))
def test_moments_of_parts_add_up_to_the_whole(first: int, second: int, seed: int) -> None:
    embeddings, groups = clouds(seed=seed)
    cuts = sorted((first, second))
    parts = [slice(0, cuts[0]), slice(cuts[0], cuts[1]), slice(cuts[1], 60)]
    a, b, c = (Moments.of(embeddings[part], groups[part], 3) for part in parts)
    whole = Moments.of(embeddings, groups, 3)
    assert_moments_close(a + b + c, whole)
    assert_moments_close(a + (b + c), whole)
    assert_moments_close(c + a + b, whole)


def test_large_groups_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings, groups = clouds()
    whole = Moments.of(embeddings, groups, 3)
    monkeypatch.setattr("oddone.density.ROWS_AT_ONCE", 7)
    assert_moments_close(Moments.of(embeddings, groups, 3), whole)


def test_moments_far_from_the_origin_keep_their_digits() -> None:
    near, groups = clouds()
    far = near + 1e7
    halves = Moments.of(far[:30], groups[:30], 3) + Moments.of(far[30:], groups[30:], 3)
    expected = Moments.of(near, groups, 3).scatter
    # 1e7 + x itself keeps x to about 1e-9; the textbook sum of squares would keep nothing.
    torch.testing.assert_close(halves.scatter, expected, rtol=1e-7, atol=1e-6)


def test_float32_embeddings_are_summed_in_float64() -> None:
    embeddings, groups = clouds(rows=3000)
    single = embeddings.float()
    exact = Moments.of(single.double(), groups, 3)
    assert_moments_close(Moments.of(single, groups, 3), exact, rtol=1e-12)


def error_over_deviations(moments: Moments, rows: Tensor) -> float:
    """Return the largest error of one group's covariance, over the deviations of both dimensions.

    In these units a float64 covariance is off by some roundings, at any scale of any dimension;
    one whose products are float32 is off by 1e-7.
    """
    _, exact = oracles.exact_mean_and_covariance(rows.tolist())
    covariance = torch.tensor(
        [[float(value) for value in row] for row in exact], dtype=torch.float64
    )
    deviations = covariance.diagonal().sqrt()
    error = moments.scatter[0] / len(rows) - covariance
    return float((error / deviations[:, None] / deviations).abs().max())


@pytest.mark.parametrize("at_once", [4096, 31])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("scale", "offset"),
    [
        ((1, 1, 1, 1), 0),
        ((1e-6, 1, 1e6, 1e-3), 0),
        ((1e-2, 1e-2, 1e-2, 1e-2), 1e4),
        ((1e-3, 1, 1e3, 10), 1e4),
    ],
)
def test_scatter_is_exact_to_some_roundings_far_away_and_at_any_scale(
    scale: tuple[float, ...],
    offset: float,
    dtype: torch.dtype,
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oddone.density.ROWS_AT_ONCE", at_once)
    near, one_group = clouds(rows=300, groups=1)
    rows = (near * torch.tensor(scale) + offset).to(dtype)
    rounding = torch.finfo(torch.float64).eps
    # Far away, the means of parts are known to a rounding of the offset.
    bound = 8 * rounding * (1 + offset / min(scale))
    assert error_over_deviations(Moments.of(rows, one_group, 1), rows) < bound
    halves = [Moments.of(part, one_group[:150], 1) for part in rows.split(150)]
    assert error_over_deviations(halves[0] + halves[1], rows) < bound


def test_directions_of_little_variance_keep_their_distances() -> None:
    near, one_group = clouds(rows=300, groups=1)
    turn = torch.linalg.qr(near[:4]).Q
    rows = (near * torch.tensor([1, 1e-1, 1e-2, 1e-4]) @ turn).float()
    mean, covariance = oracles.exact_mean_and_covariance(rows.tolist())
    exact_rows = [[Fraction(value) for value in row] for row in rows[:20].tolist()]
    expected = [oracles.mahalanobis(row, mean, covariance) for row in exact_rows]
    distances = Gaussians.fit(Moments.of(rows, one_group, 1)).distances(rows[:20])
    # The largest variance is 3e10 times the smallest, which products in float32 would lose.
    variances = np.linalg.eigvalsh(np.array(covariance, dtype=np.float64))
    bound = np.finfo(np.float64).eps * variances[-1] / variances[0]
    assert bound < 1e-5
    torch.testing.assert_close(distances[:, 0].tolist(), expected, rtol=bound, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_moments_ignore_the_order_of_rows(dtype: torch.dtype) -> None:
    embeddings, groups = clouds(rows=300, offset=100.0)
    embeddings = embeddings.to(dtype)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(1))
    shuffled = Moments.of(embeddings[order], groups[order], 3)
    assert_moments_close(shuffled, Moments.of(embeddings, groups, 3), rtol=1e-12)


def test_scatter_is_symmetric_to_the_last_bit() -> None:
    scatter = Moments.of(*clouds(dim=37), 3).scatter
    assert torch.equal(scatter, scatter.mT)


def test_moments_do_not_ask_for_contiguous_rows() -> None:
    embeddings, groups = clouds()
    by_columns = embeddings.mT.contiguous().mT
    assert_moments_close(Moments.of(by_columns, groups, 3), Moments.of(embeddings, groups, 3))
    torch.testing.assert_close(
        Gaussians.fit_tied(by_columns, groups, 3).whitening,
        Gaussians.fit_tied(embeddings, groups, 3).whitening,
    )


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_not_finite_is_an_error_and_no_warning(bad: float) -> None:
    embeddings, groups = clouds()
    embeddings[7, 1] = bad
    with pytest.raises(DataError, match="1 of 60 embeddings hold NaN or infinity"):
        Moments.of(embeddings, groups * 0, 3)


def test_an_empty_group_adds_nothing() -> None:
    embeddings, groups = clouds(groups=2)
    moments = Moments.of(embeddings, groups * 2, 3)  # group 1 is empty
    assert moments.count.tolist() == [30, 0, 30]
    assert_moments_close(moments + Moments.of(embeddings[:0], groups[:0], 3), moments)
    assert (moments.mean[1] == 0).all()


def test_moments_refuse_what_they_cannot_count() -> None:
    embeddings, groups = clouds()
    with pytest.raises(DataError, match="groups holds 2, which is not one of 0 to 1"):
        Moments.of(embeddings, groups, 2)
    with pytest.raises(SettingsError, match="n_groups=0: there must be at least 1"):
        Moments.of(embeddings, groups, 0)
    with pytest.raises(DataError, match="1 of 60 embeddings hold NaN"):
        Moments.of(embeddings.index_fill(0, torch.tensor([3]), torch.nan), groups, 3)
    with pytest.raises(DataError, match="3 groups in 4 dimensions and of 5 groups in 4"):
        _ = Moments.of(embeddings, groups, 3) + Moments.of(embeddings, groups, 5)


@pytest.mark.usefixtures("as_shipped")
def test_groups_of_the_wrong_length_are_named() -> None:
    embeddings, groups = clouds()
    with pytest.raises(DataError, match=r"groups has shape \(59,\) but there are 60 embeddings"):
        Moments.of(embeddings, groups[1:], 3)


# --- Gaussians --------------------------------------------------------------------------------


def covariances(gaussians: Gaussians) -> Tensor:
    factor = torch.linalg.inv(gaussians.whitening)
    return factor @ factor.mT


def test_distances_are_the_papers_equation() -> None:
    embeddings, groups = clouds()
    distances = Gaussians.fit(Moments.of(embeddings, groups, 3)).distances(embeddings)
    for group in range(3):
        fitted = oracles.mean_and_covariance(embeddings[groups == group].tolist())
        expected = [oracles.mahalanobis(row, *fitted) for row in embeddings.tolist()]
        torch.testing.assert_close(distances[:, group].tolist(), expected)


def test_distances_agree_with_scipy() -> None:
    embeddings, groups = clouds(rows=500, dim=20)
    moments = Moments.of(embeddings, groups, 3)
    distances = Gaussians.fit(moments).distances(embeddings)
    for group in range(3):
        inverse = np.linalg.inv(moments.scatter[group].numpy() / int(moments.count[group]))
        expected = scipy_distance.cdist(
            embeddings.numpy(), moments.mean[group : group + 1].numpy(), "mahalanobis", VI=inverse
        )
        np.testing.assert_allclose(distances[:, group].numpy(), expected[:, 0], rtol=1e-9)


def test_a_unit_gaussian_measures_plain_length() -> None:
    gaussians = Gaussians(torch.zeros(1, 3), torch.eye(3)[None])
    assert gaussians.distances(torch.tensor([[3.0, 4.0, 0.0]])).item() == pytest.approx(5)


@given(st.integers(0, 1000))
def test_distances_do_not_depend_on_the_axes(seed: int) -> None:
    embeddings, groups = clouds(seed=seed)
    generator = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=generator)).Q
    moved = embeddings @ turn * 3 + 7
    ours = Gaussians.fit(Moments.of(embeddings, groups, 3)).distances(embeddings)
    after = Gaussians.fit(Moments.of(moved, groups, 3)).distances(moved)
    torch.testing.assert_close(after, ours, rtol=1e-7, atol=1e-9)


def test_distances_in_parts_equal_distances_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings, groups = clouds()
    gaussians = Gaussians.fit(Moments.of(embeddings, groups, 3))
    whole = gaussians.distances(embeddings)
    monkeypatch.setattr("oddone.density.WHITENED_AT_ONCE", 5 * 3 * 4)
    torch.testing.assert_close(gaussians.distances(embeddings), whole)
    assert gaussians.distances(embeddings[:0]).shape == (0, 3)


def test_distances_far_from_the_origin_keep_their_digits() -> None:
    embeddings, groups = clouds()
    near = Gaussians.fit(Moments.of(embeddings, groups, 3)).distances(embeddings)
    far = Gaussians.fit(Moments.of(embeddings + 1e6, groups, 3)).distances(embeddings + 1e6)
    torch.testing.assert_close(far, near, rtol=1e-6, atol=1e-6)


def test_the_gradient_of_distances_is_right() -> None:
    embeddings, groups = clouds(rows=30)
    gaussians = Gaussians.fit(Moments.of(embeddings, groups, 3), n_poses=3)
    poses = torch.arange(30) % 3
    inputs = embeddings.requires_grad_()
    assert torch.autograd.gradcheck(gaussians.distances, inputs)
    assert torch.autograd.gradcheck(lambda z: gaussians.pose_distances(z, poses), inputs)


def test_a_row_is_measured_by_the_gaussians_of_its_own_pose() -> None:
    embeddings, groups = clouds(rows=120, groups=6)
    moments = Moments.of(embeddings, groups, 6)
    gaussians = Gaussians.fit(moments, n_poses=3)
    poses = torch.arange(120) % 3  # 3 poses of 2 classes
    everything = gaussians.distances(embeddings).reshape(120, 3, 2)
    expected = everything[torch.arange(120), poses]
    torch.testing.assert_close(gaussians.pose_distances(embeddings, poses), expected)
    one_pose = Gaussians.fit(moments).pose_distances(embeddings, torch.zeros_like(poses))
    torch.testing.assert_close(one_pose, everything.reshape(120, 6))


def test_float32_gaussians_are_nearly_as_good() -> None:
    embeddings, groups = clouds(rows=500, dim=20)
    exact = Gaussians.fit(Moments.of(embeddings, groups, 3))
    single = exact.to(dtype=torch.float32)
    ours = single.distances(embeddings.float())
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), exact.distances(embeddings), rtol=1e-4, atol=1e-4)
    assert exact.distances(embeddings.float()).dtype == torch.float64


def test_covariances_are_those_of_scikit_learn() -> None:
    embeddings, groups = clouds(rows=45, dim=6)
    moments = Moments.of(embeddings, groups, 3)
    plain = covariances(Gaussians.fit(moments))
    shrunk = covariances(Gaussians.fit(moments, shrinkage=0.3))
    oas = covariances(Gaussians.fit(moments, shrinkage="oas"))
    for group in range(3):
        rows = embeddings[groups == group].numpy()
        empirical = EmpiricalCovariance().fit(rows).covariance_
        np.testing.assert_allclose(plain[group], empirical, rtol=1e-8)
        np.testing.assert_allclose(shrunk[group], shrunk_covariance(empirical, 0.3), rtol=1e-8)
        np.testing.assert_allclose(oas[group], OAS().fit(rows).covariance_, rtol=1e-8)


def test_full_shrinkage_leaves_a_sphere() -> None:
    embeddings, groups = clouds()
    spheres = covariances(Gaussians.fit(Moments.of(embeddings, groups, 3), shrinkage=1.0))
    for sphere in spheres:
        torch.testing.assert_close(sphere, sphere[0, 0] * torch.eye(4, dtype=torch.float64))


def test_tied_gaussians_share_the_covariance_around_their_own_means() -> None:
    embeddings, groups = clouds()
    tied = Gaussians.fit(Moments.of(embeddings, groups, 3), tied=True)
    means = torch.stack([embeddings[groups == group].mean(dim=0) for group in range(3)])
    pooled = EmpiricalCovariance(assume_centered=True).fit((embeddings - means[groups]).numpy())
    for covariance in covariances(tied):
        np.testing.assert_allclose(covariance, pooled.covariance_, rtol=1e-8)
    torch.testing.assert_close(tied.mean, means)


def test_the_shrinkage_of_a_tied_covariance_is_that_of_scikit_learn() -> None:
    embeddings, groups = clouds(dim=6)
    means = torch.stack([embeddings[groups == group].mean(dim=0) for group in range(3)])
    around = OAS(assume_centered=True).fit((embeddings - means[groups]).numpy())
    share = tied_oas_share(embeddings, groups, 3)
    assert share == pytest.approx(around.shrinkage_)
    assert 0.005 < share < 0.9
    by_itself, given_it = (Gaussians.fit_tied(embeddings, groups, 3, s) for s in ("oas", share))
    torch.testing.assert_close(given_it.whitening, by_itself.whitening)


@given(st.integers(0, 1000), st.sampled_from([0.0, 0.3, "oas"]))
def test_tied_gaussians_are_fitted_without_a_scatter_for_each_group(
    seed: int, shrinkage: float | str
) -> None:
    embeddings, groups = clouds(seed=seed)
    expected = Gaussians.fit(Moments.of(embeddings, groups, 3), shrinkage, tied=True)
    gaussians = Gaussians.fit_tied(embeddings, groups, 3, shrinkage)
    assert gaussians.whitening.shape == (1, 4, 4)
    torch.testing.assert_close(gaussians.mean, expected.mean, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gaussians.whitening, expected.whitening, rtol=1e-9, atol=1e-9)


def test_tied_gaussians_in_parts_equal_those_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings, groups = clouds()
    at_once = Gaussians.fit_tied(embeddings, groups, 3)
    distances = at_once.distances(embeddings)
    monkeypatch.setattr("oddone.density.TIED_ROWS_AT_ONCE", 7)
    in_parts = Gaussians.fit_tied(embeddings, groups, 3)
    torch.testing.assert_close(in_parts.mean, at_once.mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(in_parts.whitening, at_once.whitening, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(at_once.distances(embeddings), distances, rtol=1e-12, atol=1e-12)


def test_one_whitening_for_all_groups_measures_as_a_copy_for_each() -> None:
    embeddings, groups = clouds()
    shared = Gaussians.fit_tied(embeddings, groups, 3)
    copied = Gaussians(shared.mean, shared.whitening.expand(3, 4, 4))
    rows = torch.cat([embeddings, shared.mean])
    distances = shared.distances(rows)
    torch.testing.assert_close(distances, copied.distances(rows), rtol=1e-12, atol=1e-12)
    # Of a mean itself: that the same numbers are subtracted depends on how a CPU multiplies.
    torch.testing.assert_close(
        distances[-3:].diagonal(), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-14
    )
    assert shared.distances(rows[:0]).shape == (0, 3)


def test_one_whitening_serves_the_groups_of_all_poses() -> None:
    embeddings, groups = clouds(rows=120, groups=6)
    fitted = Gaussians.fit_tied(embeddings, groups, 6)
    shared = Gaussians(fitted.mean, fitted.whitening, n_poses=2)
    poses = torch.arange(120) % 2
    every = shared.distances(embeddings).unflatten(1, (2, 3))
    expected = every[torch.arange(120), poses]
    torch.testing.assert_close(shared.pose_distances(embeddings, poses), expected)


def test_tied_gaussians_far_from_the_origin_keep_their_digits() -> None:
    near, groups = clouds()
    far = near + 1e6
    expected = Gaussians.fit_tied(near, groups, 3).distances(near)
    distances = Gaussians.fit_tied(far, groups, 3).distances(far)
    torch.testing.assert_close(distances, expected, rtol=1e-8, atol=1e-8)


def test_tied_gaussians_need_an_image_in_every_group_and_two_in_some() -> None:
    embeddings, groups = clouds(rows=9, groups=3, dim=2)
    alone = torch.tensor([0, 1, 2, 2, 2, 2, 2, 2, 2])
    assert Gaussians.fit_tied(embeddings, alone, 3).distances(embeddings).isfinite().all()
    with pytest.raises(DataError, match="group 3 has 0 images and a Gaussian needs at least 1"):
        Gaussians.fit_tied(embeddings, groups, 4)
    with pytest.raises(DataError, match="3 groups together have 3 images.* alike\\); add images$"):
        Gaussians.fit_tied(embeddings[:3], torch.arange(3), 3)


def test_tied_gaussians_count_the_embeddings_that_are_not_finite() -> None:
    embeddings, groups = clouds()
    embeddings[7, 1] = torch.nan
    with pytest.raises(DataError, match="1 of 60 embeddings hold NaN or infinity"):
        Gaussians.fit_tied(embeddings, groups, 3)


def test_shrinkage_lets_a_group_have_fewer_images_than_dimensions() -> None:
    embeddings, groups = clouds(rows=15, dim=8)
    moments = Moments.of(embeddings, groups, 3)
    assert Gaussians.fit(moments, shrinkage="oas").distances(embeddings).isfinite().all()
    assert Gaussians.fit(moments, shrinkage=0.1).distances(embeddings).isfinite().all()
    assert Gaussians.fit(moments, tied=True).distances(embeddings).isfinite().all()


def test_a_group_with_too_few_images_is_named_with_its_count_and_the_fix() -> None:
    embeddings, groups = clouds(rows=15, dim=8)
    moments = Moments.of(embeddings, groups, 3)
    message = "group 'cat' has 5 images.*in 8 dimensions is singular.*shrinkage='oas'"
    with pytest.raises(DataError, match=message):
        Gaussians.fit(moments, names=["cat", "dog", "fox"])
    with pytest.raises(DataError, match=r"group 0 has 5 images \(so do 2 others\)"):
        Gaussians.fit(moments)


@pytest.mark.parametrize(("count", "tied", "needed"), [(0, False, 2), (1, False, 2), (0, True, 1)])
def test_shrinkage_cannot_make_up_for_a_missing_group(count: int, tied: bool, needed: int) -> None:
    embeddings, groups = clouds(groups=2)
    kept = torch.cat(((groups == 0).nonzero()[:, 0], (groups == 1).nonzero()[:count, 0]))
    moments = Moments.of(embeddings[kept], groups[kept], 2)
    message = f"group 1 has {count} images? and a Gaussian needs at least {needed}; add images"
    with pytest.raises(DataError, match=message):
        Gaussians.fit(moments, shrinkage="oas", tied=tied)


def test_images_all_alike_are_singular_with_any_shrinkage() -> None:
    embeddings, groups = torch.ones(10, 3), torch.zeros(10, dtype=torch.long)
    for shrinkage in (0.0, 0.5, "oas"):
        with pytest.raises(DataError, match="images all alike"):
            Gaussians.fit(Moments.of(embeddings, groups, 1), shrinkage=shrinkage)


def test_a_dimension_that_repeats_another_is_singular_at_any_scale() -> None:
    embeddings, groups = clouds(rows=300)
    moments = Moments.of(embeddings * torch.tensor([1e-6, 1.0, 1e3, 1.0]), groups, 3)
    Gaussians.fit(moments)  # scales differ, yet nothing depends on anything
    repeated = embeddings.clone()
    repeated[:, 3] = 1e-3 * repeated[:, 0] - repeated[:, 1]
    with pytest.raises(DataError, match="is singular"):
        Gaussians.fit(Moments.of(repeated, groups, 3))
    with pytest.raises(DataError, match="the 3 groups together have 300 images"):
        Gaussians.fit(Moments.of(repeated, groups, 3), tied=True)


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize("shrinkage", [-0.1, 1.1, float("nan"), "ledoit"])
def test_a_shrinkage_that_is_no_share_is_refused(shrinkage: float | str) -> None:
    embeddings, groups = clouds()
    with pytest.raises(SettingsError, match=r"shrinkage=.*choose 'oas' or a number from 0 to 1"):
        Gaussians.fit(Moments.of(embeddings, groups, 3), shrinkage=shrinkage)


@pytest.mark.usefixtures("as_shipped")
def test_gaussians_refuse_what_they_cannot_measure() -> None:
    embeddings, groups = clouds()
    moments = Moments.of(embeddings, groups, 3)
    gaussians = Gaussians.fit(moments)
    poses = torch.zeros(60, dtype=torch.long)
    with pytest.raises(DataError, match=r"embeddings of 2 dimensions.*Gaussians of 4"):
        gaussians.distances(embeddings[:, :2])
    with pytest.raises(SettingsError, match="n_poses=2 does not divide the 3 groups"):
        Gaussians.fit(moments, n_poses=2)
    with pytest.raises(DataError, match="poses holds 3"):
        gaussians.pose_distances(embeddings, poses + 3)
    with pytest.raises(SettingsError, match="2 names for 3 groups"):
        Gaussians.fit(moments, names=["a", "b"])
