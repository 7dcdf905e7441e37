"""What can be trained on."""

from oddone.data import ImageSet
from oddone.errors import DataError, SettingsError
from oddone.training.settings import TrainSettings


def check_source(source: ImageSet, settings: TrainSettings) -> None:
    """Raise a `DataError` unless the images and labels can be trained on."""
    if len(source) < 2:
        raise DataError(f"{len(source)} images are too few to train on; give at least 2")
    needs_labels = settings.objective != "simclr"
    if needs_labels and (source.labels < 0).any():
        raise DataError(
            f"{int((source.labels < 0).sum())} of {len(source)} images have no label, and "
            f"{settings.objective} needs one each; sort them into one folder per class, or train "
            f"with --objective simclr"
        )
    height, width = source.images.shape[2:]
    if height != width:
        raise DataError(f"images of {height} x {width} pixels are not square; set model.image_size")


def check_outliers(outliers: ImageSet, source: ImageSet, settings: TrainSettings) -> None:
    """Raise an error unless the outliers can be trained on beside the source."""
    if settings.objective != "cross-entropy":
        raise SettingsError(
            f"outliers are shown to a classifier alone, and objective={settings.objective!r}; "
            f"choose objective='cross-entropy', or give no outliers"
        )
    if len(outliers) == 0:
        raise DataError("there are no images among the outliers; give at least 1")
    (height, width), size = outliers.images.shape[2:], source.images.shape[-1]
    if (height, width) != (size, size):
        raise DataError(
            f"the outliers have {height} x {width} pixels and the training images {size} x {size}, "
            f"which would give them away; load both with size={size}"
        )
