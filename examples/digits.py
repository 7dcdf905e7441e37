"""The whole method on one screen: learn the digits 0 to 7, then notice an 8 or a 9.

Masked contrastive learning trains a small encoder on four poses of each digit; one Gaussian per
(pose, class) measures distances; self-ensemble inference fuses the four views of a test image.
The images come with scikit-learn.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import oddone

CLASSES, POSES, BATCH, STEPS = 8, 4, 512, 300


def main() -> None:
    """Train, fit, and print accuracy and AUROC without and with self-ensemble inference."""
    pixels, digits = (torch.tensor(array) for array in load_digits(return_X_y=True))
    images = pixels.float().reshape(-1, 8, 8) / 16
    known, held_out = digits < CLASSES, torch.arange(len(images)) % 3 == 0

    training = known & ~held_out
    rows, poses = in_all_poses(images[training])
    labels = digits[training].repeat(POSES)
    encoder = train(rows, labels, poses)

    moments = oddone.Moments.of(embed(encoder, rows), poses * CLASSES + labels, CLASSES * POSES)
    gaussians = oddone.Gaussians.fit(moments, n_poses=POSES)
    ind_distances = distances(encoder, gaussians, images[known & held_out])
    ood_distances = distances(encoder, gaussians, images[~known & held_out])
    for name, views in (("one view", slice(0, 1)), ("four views", slice(0, POSES))):
        ind = oddone.decide(oddone.harmonic(ind_distances[views]))
        ood = oddone.decide(oddone.harmonic(ood_distances[views]))
        accuracy = oddone.accuracy(ind.labels, digits[known & held_out])
        auroc = oddone.auroc(ind.scores, ood.scores)
        print(f"{name:<11} accuracy {accuracy:.1%}   AUROC against 8 and 9 {auroc:.1%}")


def in_all_poses(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return each image rotated by four quarters, as rows, and the pose of each row."""
    rotated = [images.rot90(pose, dims=(1, 2)) for pose in range(POSES)]
    return torch.cat(rotated), torch.arange(POSES).repeat_interleave(len(images))


def train(rows: Tensor, labels: Tensor, poses: Tensor) -> nn.Module:
    """Return an encoder trained with MCL; a view of a row is the row plus noise."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 16))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)
    for _ in range(STEPS):
        parents = torch.randperm(len(rows))[:BATCH].repeat(2)
        views = rows[parents] + 0.25 * torch.randn(len(parents), 8, 8)
        loss = oddone.mcl_loss(
            encoder(views), labels[parents], poses[parents], parents, oddone.MCLSettings()
        )
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
    return encoder


@torch.no_grad()
def embed(encoder: nn.Module, rows: Tensor) -> Tensor:
    """Return the rows' embeddings at unit length."""
    return nn.functional.normalize(encoder(rows), dim=1)


def distances(encoder: nn.Module, gaussians: oddone.Gaussians, images: Tensor) -> Tensor:
    """Return the distances of every pose of every image to every class."""
    rows, poses = in_all_poses(images)
    measured = gaussians.pose_distances(embed(encoder, rows), poses)
    return measured.reshape(POSES, len(images), CLASSES)


if __name__ == "__main__":
    main()
