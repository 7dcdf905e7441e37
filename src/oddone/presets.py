"""Complete settings for common purposes. A variant is `dataclasses.replace(cpu(), steps=100)`."""

from collections.abc import Callable
from dataclasses import replace

from oddone.encoders import ModelSettings
from oddone.losses import MCLSettings
from oddone.training.settings import BatchSettings, OptimiserSettings, TrainSettings
from oddone.transforms import AugmentSettings

MUON = OptimiserSettings(
    method="muon", learning_rate=0.1, momentum=0.6, weight_decay=5e-4, warm_up=0.02
)
"""For a new `poolnet`, whichever way it is trained."""


def paper() -> TrainSettings:
    """Return the paper as printed: ResNet-34, 256 images x 4 poses a step, lr 0.3 x 1024 / 256.

    The paper does not say how long; 400 epochs are its authors' configuration. It trains on every
    image, so the detector must be calibrated with others.

    Examples
    --------
    >>> paper().model.encoder_name, paper().held_out
    ('resnet34', 0.0)

    """
    return TrainSettings(epochs=400.0, held_out=0.0)


def authors() -> TrainSettings:
    """Return the settings of the authors' published code where it differs from the paper.

    These are its denominators, one partner image per image in SPA, its clamp and its optimiser.

    Examples
    --------
    >>> authors().loss.denominator, authors().loss.beta
    ('softmax', 2.0)

    """
    loss = MCLSettings(
        beta=2.0,
        denominator="softmax",
        attraction="sampled-image",
        clamp=True,
        spa_siblings="ones",
    )
    return TrainSettings(
        epochs=400.0,
        loss=loss,
        optimiser=OptimiserSettings(nesterov=True, final_share=5e-4),
        held_out=0.0,
    )


def cpu() -> TrainSettings:
    """Return a small network and ten minutes, for a laptop without a GPU: cross-entropy.

    Network, filters and optimiser follow Keller Jordan, "94% on CIFAR-10 in 3.29 Seconds on a
    Single GPU" (2024) and Muon. Its detector sums up the energy of the logits and the distance of
    the features' mean over views. docs/decisions/0006-the-cpu-preset.md says what was tried.

    Examples
    --------
    >>> cpu().minutes, cpu().model.encoder_name
    (10.0, 'poolnet-wide')

    """
    return TrainSettings(
        minutes=10.0,
        objective="cross-entropy",
        rotations="none",
        model=ModelSettings(encoder_name="poolnet-wide", head_hidden=512, head_dim=128),
        batch=BatchSettings(images=256, poses_per_image=1, parts=2),
        optimiser=MUON,
        augment=AugmentSettings.of_classifier(shift=3),
    )


def mcl_classifier() -> TrainSettings:
    """Return MCL with a classifier beside it, for a laptop without a GPU.

    On sneakers and bags beside eight other garments it is far ahead of cross-entropy alone; with
    other garments unseen, and on pictures of many kinds, it is behind
    (docs/decisions/0006-the-cpu-preset.md).

    Examples
    --------
    >>> mcl_classifier().objective, mcl_classifier().class_weight
    ('mcl', 1.0)

    """
    return TrainSettings(
        minutes=10.0,
        loss=MCLSettings(alpha=0.1, spa_weight=3.0),
        class_weight=1.0,
        model=ModelSettings(encoder_name="poolnet", head_hidden=512, head_dim=128),
        batch=BatchSettings(images=128, poses_per_image=1, upright_share=0.5, parts=2),
        optimiser=MUON,
        augment=AugmentSettings.of_classifier(shift=2),
    )


def mcl() -> TrainSettings:
    """Return MCL alone for a laptop without a GPU: the paper's method, in small.

    Minutes are too few for SimCLR's crops and for as many images of every pose: its views are moved
    and mirrored, and most of them upright.

    Examples
    --------
    >>> mcl().class_weight, mcl().model.encoder_name
    (0.0, 'poolnet-wide')

    """
    return TrainSettings(
        minutes=10.0,
        loss=MCLSettings(alpha=0.1, spa_weight=3.0),
        model=ModelSettings(encoder_name="poolnet-wide", head_hidden=512, head_dim=128),
        batch=BatchSettings(images=128, poses_per_image=1, upright_share=0.7, parts=2),
        optimiser=MUON,
        augment=AugmentSettings.of_classifier(shift=2),
    )


def paper_classifier() -> TrainSettings:
    """Return cross-entropy at the paper's scale, as such baselines are trained: ResNet-34.

    Zagoruyko and Komodakis, "Wide Residual Networks" (2016): 128 images a step, learning rate 0.1
    with Nesterov's momentum, weight decay 5e-4, 200 epochs of images mirrored and moved by 4
    pixels. Hendrycks et al. (2019), for outlier exposure and the rotation task, train alike, with
    the cosine that is used here. Not tried yet: it takes a GPU.

    Examples
    --------
    >>> paper_classifier().epochs, paper_classifier().batch.images
    (200.0, 128)

    """
    return TrainSettings(
        epochs=200.0,
        objective="cross-entropy",
        rotations="none",
        batch=BatchSettings(images=128, poses_per_image=1),
        optimiser=OptimiserSettings(learning_rate=0.1, nesterov=True, weight_decay=5e-4),
        augment=AugmentSettings.of_classifier(shift=4),
        held_out=0.0,
    )


def pretrained() -> TrainSettings:
    """Return MCL for photographs: a head on an encoder that has learned from ImageNet, in seconds.

    Every view is encoded once, which takes most of the time; the encoder stays as it is. It needs
    the extra `oddone[pretrained]`. What was tried to choose the head and its steps is in
    docs/decisions/0012-rules-by-leaving-classes-out.md. Where more of the encoder is trained, with
    another `trained_part`, it learns at a tenth of the head's rate.

    Examples
    --------
    >>> pretrained().model.encoder_name, pretrained().model.trained_part
    ('efficientnet-lite0', 'head')

    """
    return TrainSettings(
        steps=400,
        model=ModelSettings(
            encoder_name="efficientnet-lite0",
            image_size=224,
            head_hidden=512,
            head_dim=128,
            trained_part="head",
        ),
        batch=BatchSettings(images=128, poses_per_image=1),
        optimiser=OptimiserSettings(
            method="adamw", learning_rate=1e-3, weight_decay=0.01, encoder_share=0.1
        ),
    )


def demo() -> TrainSettings:
    """Return what `oddone demo` trains: MCL with a classifier beside it, for two minutes.

    Examples
    --------
    >>> demo().minutes, demo().objective
    (2.0, 'mcl')

    """
    return replace(mcl_classifier(), minutes=2.0)


def smoke() -> TrainSettings:
    """Return a run of seconds, to see that everything works; it learns little.

    Examples
    --------
    >>> smoke().steps
    20

    """
    return TrainSettings(
        steps=20,
        loss=MCLSettings(alpha=0.3),
        model=ModelSettings(encoder_name="resnet10-w16", head_hidden=64, head_dim=32),
        batch=BatchSettings(images=32, poses_per_image=1, parts=2),
        optimiser=OptimiserSettings(learning_rate=0.05),
        augment=AugmentSettings(crop_scale=(0.4, 1.0)),
    )


def default(n_classes: int) -> TrainSettings:
    """Return what is trained from scratch unless told otherwise: `cpu`.

    One class alone leaves a classifier nothing to tell apart, and `mcl` its poses.

    Parameters
    ----------
    n_classes
        How many classes the images have.

    Examples
    --------
    >>> default(10) == cpu(), default(1) == mcl()
    (True, True)

    """
    return mcl() if n_classes == 1 else cpu()


PRESETS: dict[str, Callable[[], TrainSettings]] = {
    preset.__name__: preset
    for preset in (cpu, pretrained, mcl_classifier, mcl, paper, authors, smoke)
}
