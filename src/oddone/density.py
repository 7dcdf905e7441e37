"""One Gaussian per group: moments that add up, a whitening per group, Mahalanobis distances.

Groups are numbered `pose * classes + label`, so that the groups of one pose are neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor

from oddone.errors import DataError, SettingsError

Shrinkage = float | Literal["oas"]

# How many rows `Moments.of` and `Gaussians.fit_tied` convert, and how many whitened numbers
# `distances` holds, at a time: few enough to stay in a processor's cache.
ROWS_AT_ONCE = 4096
TIED_ROWS_AT_ONCE = 2048
WHITENED_AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter of the embeddings of each group. Batches, files and machines add up.

    The scatter is the sum of outer products around the group's own mean, so nothing is lost to
    cancellation when the embeddings lie far from the origin.

    Examples
    --------
    >>> import torch
    >>> embeddings, groups = torch.eye(4), torch.tensor([0, 0, 1, 1])
    >>> first = Moments.of(embeddings[:2], groups[:2], n_groups=2)
    >>> both = first + Moments.of(embeddings[2:], groups[2:], n_groups=2)
    >>> both.count
    tensor([2, 2])

    """

    count: Int64[Tensor, " groups"]
    """How many embeddings each group has."""
    mean: Float64[Tensor, "groups dim"]
    """The mean of each group."""
    scatter: Float64[Tensor, "groups dim dim"]
    """The sum of outer products around it."""

    @staticmethod
    def of(
        embeddings: Float[Tensor, "rows dim"], groups: Int[Tensor, " rows"], n_groups: int
    ) -> "Moments":
        """Return the moments of the embeddings, in float64; a group may be empty.

        Parameters
        ----------
        embeddings
            One row for each view of an image.
        groups
            The group of each row: `pose * classes + label`.
        n_groups
            How many groups there are.

        """
        _check_groups(groups, n_groups, rows=len(embeddings), name="groups")
        dim = embeddings.shape[1]
        count = groups.bincount(minlength=n_groups)
        mean = embeddings.new_zeros(n_groups, dim, dtype=torch.float64)
        scatter = embeddings.new_zeros(n_groups, dim, dim, dtype=torch.float64)
        rows_at_once = min(ROWS_AT_ONCE, int(count.max()))
        buffer = mean.new_empty(rows_at_once, dim)  # new memory for each part would cost as much
        members = groups.argsort().split(count.tolist())
        for group in count.nonzero()[:, 0].tolist():
            seen = 0
            for part in members[group].split(rows_at_once):
                rows = buffer[: len(part)].copy_(embeddings.index_select(0, part))
                part_mean = rows.mean(dim=0)
                scatter[group] += _gram(rows.sub_(part_mean))
                # Around the common mean, both parts are off-centre (as in __add__).
                shift = part_mean - mean[group]
                weight = len(part) / (seen + len(part))
                scatter[group].addr_(shift, shift, alpha=seen * weight)
                mean[group].add_(shift, alpha=weight)
                seen += len(part)
        if not mean.isfinite().all():  # far fewer numbers than the embeddings to look through
            raise _not_finite(embeddings)
        return Moments(count, mean, scatter)

    def __add__(self, other: "Moments") -> "Moments":
        """Return the moments of both sets of embeddings together."""
        if self.mean.shape != other.mean.shape:
            raise DataError(
                f"moments of {_shape(self)} and of {_shape(other)} do not add up; "
                f"make both with one encoder and one number of groups"
            )
        count = self.count + other.count
        weight = other.count.double() / count.clamp(min=1)
        shift = other.mean - self.mean
        between = (self.count * weight)[:, None, None] * shift[:, :, None] * shift[:, None, :]
        return Moments(
            count, self.mean + weight[:, None] * shift, self.scatter + other.scatter + between
        )


@dataclass(frozen=True, eq=False)
class Gaussians:
    """One Gaussian per group, ready to measure distances.

    `whitening` is the inverse Cholesky factor of each covariance: it maps a group's embeddings to
    uncorrelated numbers of unit variance, in which Mahalanobis distance is plain length.

    Examples
    --------
    >>> import torch
    >>> embeddings = torch.tensor([[-1.0, -2.0], [-1.0, 2.0], [1.0, -2.0], [1.0, 2.0]])
    >>> moments = Moments.of(embeddings, torch.zeros(4, dtype=torch.long), n_groups=1)
    >>> Gaussians.fit(moments).distances(torch.tensor([[0.0, 2.0], [3.0, 0.0]]))
    tensor([[1.],
            [3.]], dtype=torch.float64)

    """

    mean: Float[Tensor, "groups dim"]
    """The mean of each group."""
    whitening: Float[Tensor, "covariances dim dim"]
    """The inverse Cholesky factor of each covariance: one for each group, or one for all."""
    n_poses: int = 1
    """How many poses there are; `groups` is that times the number of classes."""

    @staticmethod
    def fit(
        moments: Moments,
        shrinkage: Shrinkage = 0.0,
        *,
        n_poses: int = 1,
        tied: bool = False,
        names: Sequence[str] | None = None,
    ) -> "Gaussians":
        """Return the maximum-likelihood Gaussians of the moments.

        Parameters
        ----------
        moments
            Those of the training embeddings.
        shrinkage
            How far each covariance is moved towards a multiple of the identity: a share from 0 (the
            paper: not at all) to 1, or "oas", the share that Chen et al.'s formula estimates from
            the group itself.
        n_poses
            How many poses the groups were numbered by.
        tied
            Whether all groups share their pooled covariance (Lee et al.).
        names
            What errors call the groups.

        """
        n_groups = len(moments.count)
        if n_poses < 1 or n_groups % n_poses:
            raise SettingsError(
                f"n_poses={n_poses} does not divide the {n_groups} groups of the moments; pass the "
                f"number of poses that the groups were numbered by"
            )
        named = _Named(moments.count, moments.mean.shape[1], shrinkage, names)
        named.check_counts(1 if tied else 2)
        if tied:
            scatter = moments.scatter.sum(dim=0, keepdim=True)
            count = moments.count.sum(dim=0, keepdim=True)
        else:
            scatter, count = moments.scatter, moments.count
        covariance = _shrunk(scatter / count[:, None, None], count, shrinkage)
        return Gaussians(moments.mean, _whitening(covariance, named, tied=tied), n_poses)

    @staticmethod
    def fit_tied(
        embeddings: Float[Tensor, "rows dim"],
        groups: Int[Tensor, " rows"],
        n_groups: int,
        shrinkage: Shrinkage = "oas",
    ) -> "Gaussians":
        """Return what `fit(tied=True)` would, without a matrix for each group on the way.

        With many classes in many dimensions, only this fits into memory.
        """
        mean, covariance = _tied_moments(embeddings, groups, n_groups)
        named = _Named(groups.bincount(minlength=n_groups), mean.shape[1], shrinkage, names=None)
        named.check_counts(1)
        covariance = _shrunk(covariance, torch.tensor([len(groups)]), shrinkage)
        return Gaussians(mean, _whitening(covariance, named, tied=True))

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> "Gaussians":
        """Return these Gaussians elsewhere, or in float32 (faster, and all that MPS offers)."""
        return replace(
            self, mean=self.mean.to(device, dtype), whitening=self.whitening.to(device, dtype)
        )

    def distances(self, embeddings: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows groups"]:
        """Return each row's Mahalanobis distance to each group (Eq. 12).

        The paper calls the negative distance a score; its minus sign is lost in print.

        Works in the precision of the Gaussians, whatever that of the embeddings.
        """
        n_groups, dim = self.mean.shape
        _check_dim(embeddings, dim)
        if len(self.whitening) < n_groups:
            return self._tied_distances(embeddings)
        # All groups are one matrix product, W_g z - W_g mean_g for every g, taken around the
        # centre of all groups so that the difference cancels little.
        centre = self.mean.mean(dim=0)
        stacked = self.whitening.reshape(n_groups * dim, dim)
        offset = (self.whitening @ (self.mean - centre)[:, :, None]).reshape(-1)
        at_once = max(1, WHITENED_AT_ONCE // max(1, len(offset)))
        blocks = [
            torch.addmm(offset, rows.to(centre) - centre, stacked.mT, beta=-1)
            .unflatten(1, (n_groups, dim))
            .norm(dim=2)
            for rows in embeddings.split(at_once)
        ]
        return torch.cat(blocks)

    def _tied_distances(
        self, embeddings: Float[Tensor, "rows dim"]
    ) -> Float[Tensor, "rows groups"]:
        """Return the distances where all groups share one whitening: each row is whitened once."""
        centre = self.mean.mean(dim=0)
        white_means = (self.mean - centre) @ self.whitening[0].mT
        # A difference of squares, which is faster, would lose what is close.
        exact = "donot_use_mm_for_euclid_dist"
        blocks = [
            torch.cdist(
                (rows.to(centre) - centre) @ self.whitening[0].mT, white_means, compute_mode=exact
            )
            for rows in embeddings.split(TIED_ROWS_AT_ONCE)
        ]
        return torch.cat(blocks)

    def pose_distances(
        self, embeddings: Float[Tensor, "rows dim"], poses: Int[Tensor, " rows"]
    ) -> Float[Tensor, "rows classes"]:
        """Return each row's distance to each class, by the Gaussians of the row's own pose."""
        _check_groups(poses, self.n_poses, rows=len(embeddings), name="poses")
        classes = len(self.mean) // self.n_poses
        distances = self.mean.new_empty(len(embeddings), classes)
        for pose in range(self.n_poses):
            members = (poses == pose).nonzero()[:, 0]
            of_pose = slice(pose * classes, (pose + 1) * classes)
            tied = len(self.whitening) < len(self.mean)
            whitening = self.whitening if tied else self.whitening[of_pose]
            gaussians = Gaussians(self.mean[of_pose], whitening)
            distances[members] = gaussians.distances(embeddings[members])
        return distances


def tied_oas_share(
    embeddings: Float[Tensor, "rows dim"], groups: Int[Tensor, " rows"], n_groups: int
) -> float:
    """Return how far OAS moves the covariance that all groups share."""
    _, covariance = _tied_moments(embeddings, groups, n_groups)
    return _oas_share(covariance, torch.tensor([len(groups)])).item()


def _tied_moments(
    embeddings: Float[Tensor, "rows dim"], groups: Int[Tensor, " rows"], n_groups: int
) -> tuple[Float64[Tensor, "groups dim"], Float64[Tensor, "1 dim dim"]]:
    """Return the mean of each group, and the covariance around these."""
    _check_groups(groups, n_groups, rows=len(embeddings), name="groups")
    dim = embeddings.shape[1]
    count = groups.bincount(minlength=n_groups)
    mean = embeddings.new_zeros(n_groups, dim, dtype=torch.float64)
    scatter = mean.new_zeros(1, dim, dim)
    parts = [each.split(TIED_ROWS_AT_ONCE) for each in (embeddings, groups)]
    for rows, members in zip(*parts, strict=True):
        mean.index_add_(0, members, rows.double())
    mean /= count.clamp(min=1)[:, None]
    if not mean.isfinite().all():
        raise _not_finite(embeddings)
    for rows, members in zip(*parts, strict=True):
        scatter[0] += _gram(rows.double() - mean[members])
    return mean, scatter / len(groups)


def _whitening(
    covariance: Float64[Tensor, "covariances dim dim"], named: "_Named", *, tied: bool
) -> Float64[Tensor, "covariances dim dim"]:
    """Return the inverse Cholesky factors; raise a DataError where a covariance has none."""
    cholesky, info = torch.linalg.cholesky_ex(covariance)
    singular = (info > 0) | _has_dependent_dimension(covariance, cholesky)
    if singular.any():
        raise named.singular(singular, tied=tied)
    identity = torch.eye(covariance.shape[-1], dtype=cholesky.dtype, device=cholesky.device)
    whitening: Tensor = torch.linalg.solve_triangular(cholesky, identity, upper=False)
    # By rows, as a file holds it: products of a matrix by columns round in another way.
    return whitening.contiguous()


def _gram(rows: Float64[Tensor, "rows dim"]) -> Float64[Tensor, "dim dim"]:
    """Return rows.mT @ rows: NumPy, unlike torch, computes only half of a symmetric product."""
    array = rows.cpu().numpy()
    with np.errstate(all="ignore"):  # the callers look for NaN and infinity themselves
        return torch.from_numpy(array.T @ array).to(rows.device)


def _shrunk(
    covariance: Float64[Tensor, "groups dim dim"],
    count: Int64[Tensor, " groups"],
    shrinkage: Shrinkage,
) -> Float64[Tensor, "groups dim dim"]:
    """Return the covariances moved towards multiples of the identity with the same trace."""
    if isinstance(shrinkage, str):
        if shrinkage != "oas":
            raise SettingsError(f"shrinkage={shrinkage!r}: choose 'oas' or a number from 0 to 1")
        share = _oas_share(covariance, count)
    elif 0 <= shrinkage <= 1:
        share = covariance.new_full((len(covariance),), shrinkage)
    else:
        raise SettingsError(f"shrinkage={shrinkage}: choose 'oas' or a number from 0 to 1")
    identity = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    sphere = _mean_variance(covariance)[:, None, None] * identity
    return torch.lerp(covariance, sphere, share[:, None, None])


def _oas_share(
    covariance: Float64[Tensor, "groups dim dim"], count: Int64[Tensor, " groups"]
) -> Float64[Tensor, " groups"]:
    """Return the oracle approximating shrinkage of Chen et al. (2010), in scikit-learn's form."""
    dim = covariance.shape[-1]
    square = covariance.square().mean(dim=(1, 2))
    sphere = _mean_variance(covariance).square()
    numerator = square + sphere
    denominator = (count + 1) * (square - sphere / dim)
    return (numerator / denominator).where(denominator > 0, 1.0).clamp(max=1)


def _mean_variance(covariance: Float64[Tensor, "groups dim dim"]) -> Float64[Tensor, " groups"]:
    return covariance.diagonal(dim1=1, dim2=2).mean(dim=1)


def _has_dependent_dimension(
    covariance: Float64[Tensor, "groups dim dim"], cholesky: Float64[Tensor, "groups dim dim"]
) -> Tensor:
    """Return for which groups some dimension is determined by the earlier ones.

    A squared pivot over its variance is the share of the variance that the earlier dimensions do
    not explain, whatever the scale. Rounding alone makes it up to about dim * eps.
    """
    pivots = cholesky.diagonal(dim1=1, dim2=2).square()
    variances = covariance.diagonal(dim1=1, dim2=2)
    rounding = 10 * covariance.shape[-1] * torch.finfo(covariance.dtype).eps
    return (pivots <= rounding * variances).any(dim=1)


@dataclass(frozen=True)
class _Named:
    """The groups as errors speak of them."""

    count: Int64[Tensor, " groups"]
    dim: int
    shrinkage: Shrinkage
    names: Sequence[str] | None

    def __post_init__(self) -> None:
        if self.names is not None and len(self.names) != len(self.count):
            raise SettingsError(
                f"{len(self.names)} names for {len(self.count)} groups; pass one a group"
            )

    def describe(self, group: int) -> str:
        name = f"group {group}" if self.names is None else f"group {self.names[group]!r}"
        count = int(self.count[group])
        return f"{name} has {count} image{'' if count == 1 else 's'}"

    def check_counts(self, needed: int) -> None:
        short = (self.count < needed).nonzero()[:, 0].tolist()
        if short:
            raise DataError(
                f"{self.describe(short[0])} and a Gaussian needs at least {needed}"
                f"{_and_others(short)}; add images of that class or leave it out"
            )

    def singular(self, singular: Tensor, *, tied: bool) -> DataError:
        if tied:
            total = int(self.count.sum())
            subject = f"the {len(self.count)} groups together have {total} images"
        else:
            groups = singular.nonzero()[:, 0].tolist()
            subject = self.describe(groups[0]) + _and_others(groups)
        otherwise = "" if self.shrinkage == "oas" else ", or fit with shrinkage='oas'"
        return DataError(
            f"{subject}, whose covariance in {self.dim} dimensions is singular (too few images, or "
            f"images all alike); add images{otherwise}"
        )


def _and_others(groups: list[int]) -> str:
    others = len(groups) - 1
    return f" (so do {others} others)" if others > 1 else " (so does 1 other)" if others else ""


def _not_finite(embeddings: Tensor) -> DataError:
    bad = int((~embeddings.isfinite()).any(dim=1).sum())
    return DataError(
        f"{bad} of {len(embeddings)} embeddings hold NaN or infinity; "
        f"leave them out, or train the encoder again with a lower learning rate"
    )


def _check_groups(groups: Tensor, n_groups: int, *, rows: int, name: str) -> None:
    if n_groups < 1:
        raise SettingsError(f"n_{name}={n_groups}: there must be at least 1")
    if groups.shape != (rows,):
        raise DataError(
            f"{name} has shape {tuple(groups.shape)} but there are {rows} embeddings; "
            f"pass one entry per row"
        )
    outside = groups[(groups < 0) | (groups >= n_groups)]
    if len(outside) > 0:
        raise DataError(
            f"{name} holds {int(outside[0])}, which is not one of 0 to {n_groups - 1}; "
            f"number them from 0, or raise n_{name}"
        )


def _check_dim(embeddings: Tensor, dim: int) -> None:
    if embeddings.shape[1] != dim:
        raise DataError(
            f"embeddings of {embeddings.shape[1]} dimensions cannot be measured by Gaussians of "
            f"{dim}; use the encoder that the Gaussians were fitted on"
        )


def _shape(moments: Moments) -> str:
    n_groups, dim = moments.mean.shape
    return f"{n_groups} groups in {dim} dimensions"
