"""Complete settings for common purposes. A variant is `dataclasses.replace(cpu(), steps=100)`."""

from collections.abc import Callable
from dataclasses import replace

from oddone.losses import MCL
from oddone.training.settings import Batch, Model, Optimiser, Training
from oddone.transforms import Augment


def paper() -> Training:
    """Return the paper as printed: ResNet-34, 256 images x 4 turns a step, lr 0.3 x 1024 / 256.

    The paper does not say how long; 400 epochs are its authors' configuration. It trains on every
    image, so the detector must be calibrated with others.
    """
    return Training(epochs=400.0, held_out=0.0)


def authors() -> Training:
    """Return the authors' published code: its denominators, its sampling, its optimiser."""
    loss = MCL(
        beta=2.0,
        denominator="softmax",
        attraction="sampled",
        clamp=True,
        spa_siblings="ones",
    )
    return Training(
        epochs=400.0,
        loss=loss,
        optimiser=Optimiser(nesterov=True, final_share=5e-4),
        held_out=0.0,
    )


def cpu() -> Training:
    """Return a small network and ten minutes, for a laptop without a GPU.

    docs/decisions/0006-the-cpu-preset.md says what was tried to choose it.
    """
    return Training(
        minutes=10.0,
        loss=MCL(temperature=0.1, alpha=0.1, beta=5.0),
        model=Model(encoder="resnet10-w16", head_hidden=512, head_dim=128),
        batch=Batch(images=128, poses_per_image=1, halves=True),
        optimiser=Optimiser(learning_rate=0.06, nesterov=True, warm_up=0.05),
        augment=Augment(crop_scale=(0.4, 1.0)),
    )


def demo() -> Training:
    """Return what `oddone demo` trains, once with MCL and once with cross-entropy."""
    return replace(
        cpu(),
        minutes=2.0,
        loss=MCL(alpha=0.1, spa_weight=3.0),
        optimiser=Optimiser(learning_rate=0.1, nesterov=True, weight_decay=5e-4, warm_up=0.05),
        augment=Augment(crop_scale=(0.5, 1.0)),
    )


def smoke() -> Training:
    """Return a run of seconds, to see that everything works; it learns little."""
    return Training(
        steps=20,
        loss=MCL(alpha=0.3),
        model=Model(encoder="resnet10-w16", head_hidden=64, head_dim=32),
        batch=Batch(images=32, poses_per_image=1, halves=True),
        optimiser=Optimiser(learning_rate=0.05),
        augment=Augment(crop_scale=(0.4, 1.0)),
    )


PRESETS: dict[str, Callable[[], Training]] = {
    preset.__name__: preset for preset in (cpu, paper, authors, smoke)
}
