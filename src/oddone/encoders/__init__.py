"""Encoders, and the networks built on them: images to features to embeddings."""

from oddone.encoders.by_name import ENCODERS, build_encoder, stem_for
from oddone.encoders.network import (
    Encoded,
    ModelSettings,
    Network,
    TrainedNetwork,
    build_network,
    projection_head,
)
from oddone.encoders.network_file import load_network, save_network
from oddone.encoders.resnet import ResNet, resnet10, resnet18, resnet34, resnet50

__all__ = [
    "ENCODERS",
    "Encoded",
    "ModelSettings",
    "Network",
    "ResNet",
    "TrainedNetwork",
    "build_encoder",
    "build_network",
    "load_network",
    "projection_head",
    "resnet10",
    "resnet18",
    "resnet34",
    "resnet50",
    "save_network",
    "stem_for",
]
