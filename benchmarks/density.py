"""Speed of fitting and measuring Gaussians against loops over groups with NumPy and SciPy."""

import numpy as np
import torch
from scipy.spatial.distance import cdist

from measure import (
    compare,
    print_comparisons,
    print_profile,
    profile_of,
    seconds_of,
    write_measurements,
)
from oddone.density import Gaussians, Moments

SEED = 0
DIM, GROUPS = 128, 40
FIT_ROWS, FIT_ROUNDS = 400_000, 15
DISTANCE_ROWS, DISTANCE_ROUNDS = 100_000, 3


def main() -> None:
    """Measure, print and record."""
    generator = torch.Generator().manual_seed(SEED)
    groups = torch.randint(GROUPS, (FIT_ROWS,), generator=generator)
    centres = torch.randn(GROUPS, DIM, generator=generator)
    noise = torch.randn(FIT_ROWS, DIM, generator=generator)
    embeddings = torch.nn.functional.normalize(centres[groups] + noise, dim=1)

    print(f"{FIT_ROWS} x {DIM} float32 embeddings in {GROUPS} groups, {FIT_ROUNDS} rounds")
    fitting = fit(embeddings, groups)
    print_comparisons(fitting)
    profile = profile_of(lambda: Moments.of(embeddings, groups, GROUPS), repeats=5)
    print_profile("Moments.of, beside the products of NumPy,", profile)

    print(f"\ndistances of {DISTANCE_ROWS} rows to {GROUPS} groups, {DISTANCE_ROUNDS} rounds")
    gaussians = Gaussians.fit(Moments.of(embeddings, groups, GROUPS))
    measuring = distances(embeddings[:DISTANCE_ROWS], gaussians)
    print_comparisons(measuring)
    write_measurements(
        "density",
        seed=SEED,
        packages=["numpy", "scipy"],
        dim=DIM,
        groups=GROUPS,
        fit={"rows": FIT_ROWS, "rounds": FIT_ROUNDS, "speed": fitting, "profile": profile},
        distances={"rows": DISTANCE_ROWS, "rounds": DISTANCE_ROUNDS, "speed": measuring},
    )


def fit(embeddings: torch.Tensor, groups: torch.Tensor) -> list[dict[str, object]]:
    """Return how fast the moments and the whole fit are, and how near the bare products."""
    rows, members = embeddings.numpy(), groups.numpy()
    single_rows = [rows[members == group] for group in range(GROUPS)]
    double_rows = [each.astype(np.float64) for each in single_rows]

    def numpy_moments() -> list[tuple[np.ndarray, np.ndarray]]:
        of_group = (rows[members == group] for group in range(GROUPS))
        return [(each.mean(axis=0), np.cov(each, rowvar=False)) for each in of_group]

    def numpy_fit() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(mean, np.linalg.inv(covariance)) for mean, covariance in numpy_moments()]

    seconds = seconds_of(
        {
            "Moments.of": lambda: Moments.of(embeddings, groups, GROUPS),
            "Gaussians.fit(Moments.of)": lambda: Gaussians.fit(
                Moments.of(embeddings, groups, GROUPS)
            ),
            "NumPy mean and np.cov per group": numpy_moments,
            "NumPy mean, np.cov and inv per group": numpy_fit,
            # NumPy computes half of a product with itself, and so does np.cov.
            "limit: float64 product of sorted rows": lambda: [r.T @ r for r in double_rows],
            "limit: float32 product of sorted rows": lambda: [r.T @ r for r in single_rows],
        },
        FIT_ROUNDS,
    )
    return [
        compare(seconds, ours="Moments.of", peer="NumPy mean and np.cov per group"),
        compare(
            seconds, ours="Gaussians.fit(Moments.of)", peer="NumPy mean, np.cov and inv per group"
        ),
        compare(seconds, ours="Moments.of", peer="limit: float64 product of sorted rows"),
        compare(seconds, ours="Moments.of", peer="limit: float32 product of sorted rows"),
    ]


def distances(embeddings: torch.Tensor, gaussians: Gaussians) -> list[dict[str, object]]:
    """Return how fast distances are in both precisions."""
    rows = embeddings.numpy().astype(np.float64)
    means = gaussians.mean.numpy()
    inverses = (gaussians.whitening.mT @ gaussians.whitening).numpy()
    single = gaussians.to(dtype=torch.float32)

    def scipy_loop() -> list[np.ndarray]:
        return [
            cdist(rows, mean[None], "mahalanobis", VI=inverse)
            for mean, inverse in zip(means, inverses, strict=True)
        ]

    peer = "SciPy cdist mahalanobis per group"
    ours = {
        "distances, float64": lambda: gaussians.distances(embeddings),
        "distances, float32": lambda: single.distances(embeddings),
    }
    seconds = seconds_of({**ours, peer: scipy_loop}, DISTANCE_ROUNDS)
    return [compare(seconds, ours=name, peer=peer) for name in ours]


if __name__ == "__main__":
    main()
