"""SimCLR's projection head, and the encoder that joins it to a body."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from oddone.errors import SettingsError


class Encoded(NamedTuple):
    """What an encoder makes of images."""

    features: Float[Tensor, "rows feature_dim"]
    embeddings: Float[Tensor, "rows dim"]
    """As the head gives them, of any length: the losses normalise."""


class Encoder(nn.Module):
    """A body that turns images into features, and a head that turns features into embeddings."""

    def __init__(self, body: nn.Module, head: nn.Sequential) -> None:
        super().__init__()
        self.body = body
        self.head = head

    @property
    def feature_dim(self) -> int:
        """How many numbers the body makes of an image."""
        first = self.head[0]
        assert isinstance(first, nn.Linear)  # noqa: S101  (projection_head made it)
        return first.in_features

    def forward(self, images: Float[Tensor, "rows 3 height width"]) -> Encoded:
        features: Tensor = self.body(images)
        return Encoded(features, self.head(features))


def projection_head(feature_dim: int, hidden: int, dim: int) -> nn.Sequential:
    """Return SimCLR's head: two linear layers with a ReLU between them and no batch norm."""
    for name, number in (("feature_dim", feature_dim), ("head_hidden", hidden), ("head_dim", dim)):
        if number < 1:
            raise SettingsError(f"{name}={number}: choose at least 1")
    return nn.Sequential(
        nn.Linear(feature_dim, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, dim)
    )
