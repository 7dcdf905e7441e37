"""Speed and memory of the losses against pytorch-metric-learning's SupConLoss.

The peer gets the joint (class, pose) labels; ours computes both terms of MCL. Times are forward
and backward together.
"""

from collections.abc import Callable

import torch
from pytorch_metric_learning.losses import SupConLoss

from measure import (
    compare,
    peak_mebibytes,
    print_comparisons,
    print_profile,
    profile_of,
    seconds_of,
    write_measurements,
)
from oddone.losses import MCLSettings, mcl_loss, supcon_loss

SEED = 0
CLASSES, POSES, DIM, TEMPERATURE = 10, 4, 128, 0.2
SPEED_ROWS, MEMORY_ROWS, ROUNDS = 2048, 16_384, 31

PEER_NAME = "pytorch-metric-learning SupConLoss"

BATCH = f"""
import sys, torch
rows = int(sys.argv[1])
embeddings = torch.randn(
    rows, {DIM}, generator=torch.Generator().manual_seed({SEED})
).requires_grad_()
parents = torch.arange(rows // 2).repeat(2)
poses, labels = parents % {POSES}, parents // {POSES} % {CLASSES}
"""
NOTHING = ""
OURS = f"""
from oddone.losses import MCLSettings, mcl_loss
settings = MCLSettings(temperature={TEMPERATURE}, alpha=0.003)
mcl_loss(embeddings, labels, poses, parents, settings).total.backward()
"""
PEER = f"""
from pytorch_metric_learning.losses import SupConLoss
SupConLoss(temperature={TEMPERATURE})(embeddings, labels * {POSES} + poses).backward()
"""


def main() -> None:
    """Measure, print and record."""
    tasks = steps()
    print(f"forward and backward of {SPEED_ROWS} rows x {DIM}, {ROUNDS} interleaved rounds")
    seconds = seconds_of(tasks, ROUNDS)
    comparisons = [compare(seconds, ours=name, peer=PEER_NAME) for name in list(tasks)[:-1]]
    print_comparisons(comparisons)
    profile = profile_of(tasks["mcl_loss"], repeats=20)
    print_profile("mcl_loss", profile)

    print(f"\npeak resident memory at {MEMORY_ROWS} rows x {DIM}, each in its own process")
    memory = peak_memory()
    for name, mebibytes in memory.items():
        print(f"  {name:<44}{mebibytes:>10}")
    write_measurements(
        "loss",
        seed=SEED,
        packages=["pytorch-metric-learning"],
        rows=SPEED_ROWS,
        dim=DIM,
        rounds=ROUNDS,
        speed=comparisons,
        profile=profile,
        memory_rows=MEMORY_ROWS,
        memory=memory,
    )


def steps() -> dict[str, Callable[[], None]]:
    """Return one forward and backward pass of each of our losses and, last, of the peer's."""
    generator = torch.Generator().manual_seed(SEED)
    embeddings = torch.randn(SPEED_ROWS, DIM, generator=generator).requires_grad_()
    parents = torch.arange(SPEED_ROWS // 2).repeat(2)
    poses, labels = parents % POSES, parents // POSES % CLASSES
    joint = labels * POSES + poses
    peer = SupConLoss(temperature=TEMPERATURE)

    def step(loss: Callable[[], torch.Tensor]) -> Callable[[], None]:
        def forward_and_backward() -> None:
            embeddings.grad = None
            loss().backward()

        return forward_and_backward

    def mcl(settings: MCLSettings) -> Callable[[], None]:
        return step(
            lambda: (
                mcl_loss(embeddings, labels, poses, parents, settings, generator=generator).total
            )
        )

    return {
        "mcl_loss": mcl(MCLSettings()),
        "mcl_loss, softmax": mcl(MCLSettings(denominator="softmax")),
        "mcl_loss, sampled": mcl(MCLSettings(attraction="sampled")),
        "supcon_loss": step(lambda: supcon_loss(embeddings, joint, parents, TEMPERATURE)),
        PEER_NAME: step(lambda: peer(embeddings, joint)),
    }


def peak_memory() -> dict[str, float]:
    """Return the peak memory, in MiB, of the batch alone, with our loss and with the peer's."""
    rows = str(MEMORY_ROWS)
    alone, ours, peer = (peak_mebibytes(BATCH + task, rows) for task in (NOTHING, OURS, PEER))
    return {
        "torch and the batch alone (MiB)": alone,
        "mcl_loss (MiB)": ours,
        f"{PEER_NAME} (MiB)": peer,
        "ours over the peer's": round(ours / peer, 3),
    }


if __name__ == "__main__":
    main()
