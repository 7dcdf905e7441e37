"""Tiny models of transformers with random weights, saved as their makers publish them."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.utils import logging

TRANSFORMER = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "dinov2": TRANSFORMER,
    "dinov3_vit": TRANSFORMER,
    "vit": TRANSFORMER,
    "ijepa": TRANSFORMER,
    "clip_vision_model": TRANSFORMER,
    "vit_mae": {**TRANSFORMER, "patch_size": 4},
    "convnext": {"hidden_sizes": [8, 8, 16, 24], "depths": [1, 1, 1, 1]},
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    "swin": {
        "embed_dim": 8,
        "depths": [1, 1],
        "num_heads": [1, 2],
        "image_size": 28,
        "patch_size": 2,
        "window_size": 7,
    },
}
PREPROCESSOR = {
    "do_resize": True,
    "size": {"shortest_edge": 32},
    "do_center_crop": True,
    "crop_size": {"height": 28, "width": 28},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.4, 0.5, 0.6],
    "image_std": [0.2, 0.25, 0.3],
}


def tiny_model(model_type: str, seed: int = 0) -> Any:
    """Return a model in evaluation mode, with weights that are far from their initial ones."""
    config = transformers.AutoConfig.for_model(model_type, **CONFIGS[model_type])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.AutoModel.from_config(config)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * 0.2)
    return model.eval()


def save_model(folder: Path, model: Any, preprocessor: dict[str, Any] | None = None) -> str:
    """Save a model as published; return the name of the encoder that it is."""
    logging.disable_progress_bar()
    try:
        model.save_pretrained(folder)
    finally:
        logging.enable_progress_bar()
    entries = PREPROCESSOR if preprocessor is None else preprocessor
    (folder / "preprocessor_config.json").write_text(json.dumps(entries))
    return f"transformers:{folder}"
