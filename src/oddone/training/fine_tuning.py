"""Fine-tuning: a network that starts from the encoder of another."""

from oddone.errors import DataError, SettingsError
from oddone.training.encoder_file import TrainedNetwork, misfits
from oddone.training.objective import Network
from oddone.training.settings import ModelSettings


def start_from(
    start: TrainedNetwork, network: Network, *, model: ModelSettings, image_size: int
) -> None:
    """Copy the encoder of a trained network, body and head, into one that has yet to learn."""
    if start.image_size != image_size:
        raise DataError(
            f"the network to start from was trained on images of {start.image_size} x "
            f"{start.image_size} pixels and these have {image_size} x {image_size}; set "
            f"model.image_size={start.image_size}"
        )
    weights = start.network.encoder.state_dict()
    different = misfits(network.encoder.state_dict(), weights)
    if different:
        raise SettingsError(
            f"the network to start from is {_in_words(start.settings.model)} and this run trains "
            f"{_in_words(model)} ({len(different)} weights differ, such as {different[0]!r}); "
            f"choose the same model.encoder (or body), model.head_hidden and model.head_dim"
        )
    network.encoder.load_state_dict(weights)


def _in_words(model: ModelSettings) -> str:
    return f"{model.encoder} with a head of {model.head_hidden} and {model.head_dim}"
