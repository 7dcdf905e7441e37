"""The features of images are computed once, and kept beside the decoded images."""

import hashlib
import json
import warnings
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import normalize

from oddone import distributed
from oddone.data import ImageSet
from oddone.data.cache import features_folder
from oddone.data.stream import IMAGES_AT_ONCE
from oddone.device import map_in_threads
from oddone.encoders import TrainedNetwork
from oddone.encoders.fold import fold_batch_norm
from oddone.encoders.network_file import OWN_ENCODER, network_header
from oddone.errors import ArtifactError, DataError, DataWarning
from oddone.files import remove_leftovers
from oddone.progress import Progress, described
from oddone.scoring import ImageBatch, process_batches
from oddone.tensor_file import TensorFile, write_tensors
from oddone.transforms import ViewSet

PIXELS_AT_ONCE = 2**18
"""Of the rows that a thread has in work: 256 of 32 x 32 pixels, or 5 of 224 x 224."""
VERSION = 2
KIND = "features"


def embed_once(
    trained: TrainedNetwork,
    views: ViewSet,
    source: ImageSet,
    indices: Int[np.ndarray, " some"] | None = None,
    *,
    progress: Progress | None = None,
) -> Float[Tensor, "views images dim"]:
    """Return the features of `encode_once` in unit length, as rules compare them."""
    features = encode_once(trained, views, source, indices, progress=progress).float()
    return normalize(features, dim=2, out=features)


def encode_once(
    trained: TrainedNetwork,
    views: ViewSet,
    source: ImageSet,
    indices: Int[np.ndarray, " some"] | None = None,
    *,
    progress: Progress | None = None,
) -> Float[Tensor, "views images dim"]:
    """Return what the encoder makes of the views of images; from the cache if it is there.

    The features of an encoder of the user's own are not kept: what has changed in its code, no hash
    of its weights would tell. Of several processes (`oddone.distributed`) each encodes its share,
    and all return the same, on the CPU.

    Parameters
    ----------
    trained
        The network whose encoder is used, as in evaluation.
    views
        The views of each image that it is shown.
    source, indices
        The images; all by default.
    progress
        Called with how many images are done.

    """
    indices = np.arange(len(source)) if indices is None else indices
    if trained.model.encoder_name.startswith(OWN_ENCODER):
        return _encode(trained, views, source, indices, progress)
    path = features_folder() / f"{_key(trained, views, source, indices)}.safetensors"
    features = _read(path, (len(views), len(indices), trained.network.feature_dim))
    (one_lacks_them,) = distributed.largest(float(features is None))
    if features is None or one_lacks_them:
        features = _encode(trained, views, source, indices, progress)
        _keep(path, features)
    return features


def _encode(
    trained: TrainedNetwork,
    views: ViewSet,
    source: ImageSet,
    indices: Int[np.ndarray, " some"],
    progress: Progress | None,
) -> Float[Tensor, "views images dim"]:
    encoder, device = fold_batch_norm(trained.network.encoder, trained.image_size), trained.device
    rows_at_once = max(1, PIXELS_AT_ONCE // trained.image_size**2)

    @torch.no_grad()  # in every thread
    def encode(rows: Tensor) -> Tensor:
        features: Tensor = encoder(as_floats(rows))
        return features

    def encode_views(images: ImageBatch) -> Tensor:
        shown = views(images.to(device))  # bytes are faster to move than floats
        parts = map_in_threads(encode, shown.flatten(0, 1).split(rows_at_once), device)
        features: Tensor = torch.cat(parts).unflatten(0, shown.shape[:2])
        return features.cpu()

    batches = process_batches(
        encode_views,
        source,
        size=trained.image_size,
        batch_size=max(1, 8 * rows_at_once // len(views)),  # work for both threads to the end
        indices=indices[own_images(len(indices))],
        progress=described(progress, "embedding"),
    )
    own = torch.cat([batch.result for batch in batches if batch.result is not None], dim=1)
    return distributed.gather_rows(own.transpose(0, 1)).transpose(0, 1)


def own_images(number: int) -> slice:
    """Return which of so many images this process embeds; each has one at least."""
    if distributed.count() > number:
        raise DataError(f"{distributed.count()} processes to fit on {number} images; start fewer")
    return distributed.own_part(number)


def as_floats(
    pixels: UInt8[Tensor, "rows 3 height width"] | Float[Tensor, "rows 3 height width"],
) -> Float[Tensor, "rows 3 height width"]:
    """Return pixels as floats from 0 to 1, in the layout that convolutions like: channels last."""
    # Faster than `contiguous`, above all for bytes.
    rows = torch.stack(pixels.unbind(1), dim=-1)
    floats = rows.float().div_(255) if rows.dtype == torch.uint8 else rows.float()
    return floats.permute(0, 3, 1, 2)


def _key(
    trained: TrainedNetwork, views: ViewSet, source: ImageSet, indices: Int[np.ndarray, " some"]
) -> str:
    """Return a hash of all that the features depend on."""
    header = network_header(trained)
    identity = json.dumps(
        [
            VERSION,
            torch.__version__,
            trained.device.type,
            trained.image_size,
            [list(views.poses), list(views.mirrored), list(views.moved)],
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
            f"({error.strerror or error}), so they will be computed again; make room "
            f"there, or set ODDONE_CACHE to another folder",
            DataWarning,
            stacklevel=2,
        )
