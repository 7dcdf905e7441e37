"""Encoders, and the networks built on them: images to features to embeddings."""

from oddone.encoders.by_name import ENCODERS, build_encoder, stem_for
from oddone.encoders.efficientnet_lite import EfficientNetLite
from oddone.encoders.frozen import frozen_network
from oddone.encoders.network import (
    Encoded,
    ModelSettings,
    Network,
    TrainedNetwork,
    build_network,
    projection_head,
)
from oddone.encoders.network_file import load_network, save_network
from oddone.encoders.poolnet import PoolNet
from oddone.encoders.pretrained import (
    check_installed,
    default_image_size,
    is_installed,
    is_pretrained,
    pretrained_encoder,
)
from oddone.encoders.resnet import ResNet, resnet10, resnet18, resnet34, resnet50

__all__ = [
    "ENCODERS",
    "EfficientNetLite",
    "Encoded",
    "ModelSettings",
    "Network",
    "PoolNet",
    "ResNet",
    "TrainedNetwork",
    "build_encoder",
    "build_network",
    "check_installed",
    "default_image_size",
    "frozen_network",
    "is_installed",
    "is_pretrained",
    "load_network",
    "pretrained_encoder",
    "projection_head",
    "resnet10",
    "resnet18",
    "resnet34",
    "resnet50",
    "save_network",
    "stem_for",
]
