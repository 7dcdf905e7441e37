from collections.abc import Callable

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

import oracles
from oddone.fusion import average, decide, harmonic, nearest, view_weighted

FUSIONS = [average, nearest, harmonic, view_weighted]
Fusion = Callable[[Tensor], Tensor]
fusions = pytest.mark.parametrize("fuse", FUSIONS)


@st.composite
def some_distances(draw: st.DrawFn) -> Tensor:
    shape = [draw(st.integers(1, 8)), draw(st.integers(1, 5)), draw(st.integers(1, 6))]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    return torch.rand(shape, dtype=torch.float64, generator=generator) * 30 + 0.01


@fusions
@given(distances=some_distances())
def test_a_fusion_is_the_papers_equation(fuse: Fusion, distances: Tensor) -> None:
    for image, ours in enumerate(fuse(distances)):
        expected = oracles.fused(fuse.__name__, distances[:, image].tolist())
        torch.testing.assert_close(ours.tolist(), expected)


@fusions
@given(distances=some_distances())
def test_views_that_agree_fuse_to_what_they_agree_on(fuse: Fusion, distances: Tensor) -> None:
    same = distances[:1].expand(5, -1, -1)
    torch.testing.assert_close(fuse(same), distances[0])


@fusions
@given(distances=some_distances())
def test_the_order_of_views_does_not_matter(fuse: Fusion, distances: Tensor) -> None:
    torch.testing.assert_close(fuse(distances.flip(0)), fuse(distances))


@fusions
@given(distances=some_distances(), scale=st.floats(1e-3, 1e3))
def test_fused_distances_scale_with_the_distances(
    fuse: Fusion, distances: Tensor, scale: float
) -> None:
    torch.testing.assert_close(fuse(scale * distances), scale * fuse(distances))


@fusions
@given(distances=some_distances())
def test_a_fused_distance_lies_between_those_of_the_views(fuse: Fusion, distances: Tensor) -> None:
    ours, slack = fuse(distances), 1e-9
    assert (ours >= distances.amin(dim=0) - slack).all()
    assert (ours <= distances.amax(dim=0) + slack).all()


def test_near_views_weigh_more_in_the_harmonic_mean_and_less_in_the_printed_average() -> None:
    distances = torch.tensor([[[1.0, 2.0]], [[9.0, 18.0]]])
    assert harmonic(distances)[0, 0] < average(distances)[0, 0] < view_weighted(distances)[0, 0]


@fusions
def test_a_zero_distance_is_fine(fuse: Fusion) -> None:
    one_view_touches = torch.tensor([[[0.0, 2.0]], [[3.0, 4.0]]])
    assert fuse(one_view_touches).isfinite().all()
    assert fuse(torch.zeros(2, 3, 4)).eq(0).all()


def test_a_touching_view_decides_the_harmonic_mean_and_has_no_printed_weight() -> None:
    distances = torch.tensor([[[0.0, 2.0]], [[3.0, 4.0]]])
    assert harmonic(distances)[0, 0] == 0
    torch.testing.assert_close(view_weighted(distances), torch.tensor([[3.0, 4.0]]))


def test_where_all_views_touch_a_class_they_weigh_the_same() -> None:
    distances = torch.tensor([[[0.0, 2.0]], [[0.0, 4.0]]])
    torch.testing.assert_close(view_weighted(distances), torch.tensor([[0.0, 3.0]]))


@fusions
def test_the_gradient_is_right(fuse: Fusion) -> None:
    generator = torch.Generator().manual_seed(0)
    distances = torch.rand(3, 2, 4, dtype=torch.float64, generator=generator) + 0.5
    assert torch.autograd.gradcheck(fuse, distances.requires_grad_())


def test_the_nearest_class_is_the_label_and_its_distance_the_score() -> None:
    verdicts = decide(torch.tensor([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]]))
    assert verdicts.scores.tolist() == [1, 4]
    assert verdicts.labels.tolist() == [1, 2]
    assert verdicts.anomalous is None  # as there is no threshold


def test_an_image_is_anomalous_above_the_threshold_and_not_at_it() -> None:
    verdicts = decide(torch.tensor([[3.0, 1.0], [2.0, 6.0], [4.0, 3.0]]), threshold=2.0)
    assert verdicts.anomalous is not None
    assert verdicts.anomalous.tolist() == [False, False, True]


def test_no_image_has_no_verdict() -> None:
    assert decide(torch.empty(0, 3)).scores.shape == (0,)


def test_a_distance_that_is_no_number_is_never_normal() -> None:
    distances = torch.tensor([[1.0, 2.0], [torch.nan, 2.0], [torch.nan, torch.nan]])
    assert decide(distances, threshold=5.0).anomalous.tolist() == [False, True, True]
