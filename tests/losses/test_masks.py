import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

import oracles
from batches import LossBatch, batches, make_batch
from oddone.errors import DataError
from oddone.losses import count_unpaired
from oddone.losses.masks import (
    check_parents,
    check_rows,
    draw_partner_images,
    draw_partners,
    float_ids,
    joint_labels,
    same,
    share,
)


def test_same_holds_one_for_equal_ids_and_zero_elsewhere() -> None:
    ids = float_ids(torch.tensor([7, -2, 7, 9]), like=torch.zeros(1))
    block, window = torch.tensor([0, 3]), torch.tensor([0, 1, 2])
    torch.testing.assert_close(same(ids, block, window), torch.tensor([[1.0, 0, 1], [0, 0, 0]]))


def test_share_gives_equal_weights_and_leaves_an_empty_row_at_zero() -> None:
    mask = torch.tensor([[1.0, 0, 1, 1], [0, 0, 0, 0]])
    expected = torch.tensor([[1 / 3, 0, 1 / 3, 1 / 3], [0, 0, 0, 0]])
    torch.testing.assert_close(share(mask), expected)


@given(batches())
def test_joint_ids_are_equal_just_where_label_and_pose_are(batch: LossBatch) -> None:
    ids = joint_labels(batch.labels, batch.poses)
    expected = (batch.labels[:, None] == batch.labels) & (batch.poses[:, None] == batch.poses)
    assert torch.equal(ids[:, None] == ids, expected)


@given(batches())
def test_unpaired_rows_are_those_whose_masks_are_empty(batch: LossBatch) -> None:
    siblings = batch.parents[:, None] == batch.parents
    twins = (batch.labels[:, None] == batch.labels) & (batch.poses[:, None] == batch.poses)
    counted = count_unpaired(batch.labels, batch.poses, batch.parents)
    assert counted.ccm == (siblings.sum(1) == 1).sum()
    assert counted.spa == (~(twins & ~siblings).any(1)).sum()


def test_without_poses_partners_come_from_the_whole_class() -> None:
    labels, parents = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 2, 2])
    assert count_unpaired(labels, None, parents) == (2, 2)


@given(batches())
def test_drawn_partners_share_the_group_but_not_the_parent(batch: LossBatch) -> None:
    groups = float_ids(joint_labels(batch.labels, batch.poses), batch.embeddings)
    parents = float_ids(batch.parents, batch.embeddings)
    drawn = draw_partners(groups, parents, 4, generator=torch.Generator().manual_seed(1))
    possible = (groups[:, None] == groups) & (parents[:, None] != parents)
    for row, partners in enumerate(drawn):
        if possible[row].any():
            assert possible[row, partners].all()
        else:
            assert (partners == row).all()


def test_every_partner_is_drawn_equally_often() -> None:
    batch = make_batch(parents=6, views=3, classes=1, poses=1)
    groups = float_ids(batch.labels, batch.embeddings)
    parents = float_ids(batch.parents, batch.embeddings)
    draws = 20_000
    drawn = draw_partners(groups, parents, draws, generator=torch.Generator().manual_seed(0))
    for row in range(18):
        counts = drawn[row].bincount(minlength=18)
        possible = parents != parents[row]
        assert (counts[~possible] == 0).all()
        # 15 partners: four standard deviations of a count around draws / 15
        expected, spread = draws / 15, (draws / 15 * 14 / 15) ** 0.5
        assert ((counts[possible] - expected).abs() < 4 * spread).all()


def drawn_images(batch: LossBatch, samples: int = 1, seed: int = 1) -> Tensor:
    return draw_partner_images(
        float_ids(joint_labels(batch.labels, batch.poses), batch.embeddings),
        float_ids(batch.parents, batch.embeddings),
        samples,
        generator=torch.Generator().manual_seed(seed),
    )


@given(batches(), st.integers(1, 3))
def test_the_views_of_an_image_draw_the_same_views_of_its_partner_images(
    batch: LossBatch, samples: int
) -> None:
    drawn, parents = drawn_images(batch, samples), batch.parents.tolist()
    partner_images: dict[int, list[int]] = {}
    for row, parent in enumerate(parents):
        partner_images.setdefault(parent, batch.parents[drawn[row]].tolist())
        twins = (batch.labels == batch.labels[row]) & (batch.poses == batch.poses[row])
        possible = set(batch.parents[twins].tolist()) - {parent}
        assert set(partner_images[parent]) <= (possible or {parent})
    assert drawn.tolist() == oracles.same_views(parents, partner_images)


def test_every_partner_image_is_drawn_equally_often_however_many_views_it_has() -> None:
    views = torch.tensor([1, 2, 3, 4])
    parents = torch.arange(4).repeat_interleave(views)
    batch = LossBatch(torch.zeros(10, 1), torch.zeros_like(parents), 0 * parents, parents)
    draws = 20_000
    drawn = drawn_images(batch, draws)
    for row in range(10):
        counts = parents[drawn[row]].bincount(minlength=4)
        assert counts[parents[row]] == 0
        # 3 partner images: four standard deviations of a count around draws / 3
        others = counts[torch.arange(4) != parents[row]]
        assert ((others - draws / 3).abs() < 4 * (draws / 3 * 2 / 3) ** 0.5).all()


def test_images_of_one_view_draw_as_rows_do() -> None:
    batch = make_batch(parents=30, views=1)
    groups = float_ids(joint_labels(batch.labels, batch.poses), batch.embeddings)
    parents = float_ids(batch.parents, batch.embeddings)
    of_rows = draw_partners(groups, parents, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(drawn_images(batch, 3), of_rows)


@given(batches(), st.integers(0, 9))
def test_drawn_images_do_not_depend_on_the_order_of_parents(batch: LossBatch, seed: int) -> None:
    shuffled, rows = batch.shuffle_parents(seed)
    assert torch.equal(rows[drawn_images(shuffled, 2)], drawn_images(batch, 2)[rows])


def test_ids_of_the_wrong_length_are_named() -> None:
    with pytest.raises(DataError, match=r"labels has shape \(3,\) but there are 4 embeddings"):
        check_rows(torch.zeros(4, 2), labels=torch.zeros(3, dtype=torch.long))


def test_a_parent_with_two_poses_is_named() -> None:
    parents, poses = torch.tensor([5, 8, 8]), torch.tensor([0, 0, 1])
    with pytest.raises(DataError, match="parent 8 have different poses"):
        check_parents(parents, poses=poses)
