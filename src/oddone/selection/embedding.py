"""The features of images are computed once, and kept beside the decoded images."""

import hashlib
import json
import warnings
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from oddone import distributed
from oddone.data import ImageSet
from oddone.data.cache import features_folder
from oddone.data.stream import IMAGES_AT_ONCE
from oddone.detector.fitting import own_images
from oddone.detector.view_embedder import ViewEmbedder
from oddone.encoders.network_file import OWN_ENCODER, network_header
from oddone.errors import ArtifactError, DataWarning
from oddone.files import remove_leftovers
from oddone.progress import Progress, described
from oddone.scoring import ImageBatch, process_batches
from oddone.tensor_file import TensorFile, write_tensors

VERSION = 1
KIND = "features"


def embed_once(
    embedder: ViewEmbedder,
    source: ImageSet,
    indices: Int[np.ndarray, " some"] | None = None,
    *,
    progress: Progress | None = None,
) -> Float[Tensor, "views images dim"]:
    """Return the features of the views of images, of unit length; from the cache if they are there.

    Those of an encoder of the user's own are not kept: what has changed in its code, no hash of its
    weights would tell. Of several processes (`oddone.distributed`) each embeds its share, and all
    return the same.

    Parameters
    ----------
    embedder
        The network, and the views that it is shown.
    source, indices
        The images; all by default.
    progress
        Called with how many images are done.

    """
    indices = np.arange(len(source)) if indices is None else indices
    if embedder.trained.model.encoder_name.startswith(OWN_ENCODER):
        return _embed(embedder, source, indices, progress)
    path = features_folder() / f"{_key(embedder, source, indices)}.safetensors"
    shape = (len(embedder.views), len(indices), embedder.trained.network.feature_dim)
    features = _read(path, shape)
    (one_lacks_them,) = distributed.largest(float(features is None))
    if features is None or one_lacks_them:
        features = _embed(embedder, source, indices, progress)
        _keep(path, features)
    return features


def _embed(
    embedder: ViewEmbedder,
    source: ImageSet,
    indices: Int[np.ndarray, " some"],
    progress: Progress | None,
) -> Float[Tensor, "views images dim"]:
    def features(images: ImageBatch) -> Tensor:
        return embedder.embed(images).features.cpu()

    batches = process_batches(
        features,
        source,
        size=embedder.trained.image_size,
        batch_size=4 * embedder.batch_size,  # so that both threads have work to the end
        indices=indices[own_images(len(indices))],
        progress=described(progress, "embedding"),
    )
    own = torch.cat([batch.result for batch in batches if batch.result is not None], dim=1)
    return distributed.gather_rows(own.transpose(0, 1)).transpose(0, 1)


def _key(embedder: ViewEmbedder, source: ImageSet, indices: Int[np.ndarray, " some"]) -> str:
    """Return a hash of all that the features depend on."""
    trained, header = embedder.trained, network_header(embedder.trained)
    identity = json.dumps(
        [
            VERSION,
            torch.__version__,
            embedder.device.type,
            trained.image_size,
            [list(embedder.views.poses), list(embedder.views.mirrored)],
            header["model"]["encoder_name"],
            header["transformers"],
            weights_digest(trained.network.encoder),
            images_digest(source, indices),
        ]
    )
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def weights_digest(encoder: nn.Module) -> str:
    """Return a hash of all weights of an encoder."""
    digest = hashlib.sha256()
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def images_digest(source: ImageSet, indices: Int[np.ndarray, " some"]) -> str:
    """Return a hash of the pixels of these images, in this order.

    The fingerprint of the set would not do: who cuts a set may leave that as it was.
    """
    digest = hashlib.sha256(str(source.images.shape[1:]).encode())
    for start in range(0, len(indices), IMAGES_AT_ONCE):  # the set may be larger than memory
        some = source.images[indices[start : start + IMAGES_AT_ONCE]]
        digest.update(np.ascontiguousarray(some).data)
    return digest.hexdigest()


def _read(path: Path, shape: tuple[int, ...]) -> Tensor | None:
    """Return the features in a file of the cache; None if it is missing, damaged or not ours."""
    try:
        file = TensorFile.read(path)
        file.check_digest()
        return file.tensor("features", torch.float32, *shape)
    except (ArtifactError, OSError):
        return None


@distributed.by_first
def _keep(path: Path, features: Tensor) -> None:
    """Write features to the cache. They are at hand, so a full disk is no reason to stop."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        write_tensors(path, {"features": features.contiguous()}, {"kind": KIND})
    except OSError as error:
        warnings.warn(
            f"the features of {features.shape[1]} images cannot be kept in {path.parent} "
            f"({error.strerror or error}), so the next fit computes them again; make room there, "
            f"or set ODDONE_CACHE to another folder",
            DataWarning,
            stacklevel=2,
        )
