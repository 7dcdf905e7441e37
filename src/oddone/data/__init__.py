"""Load images of one size from folders, arrays and the files of known data sets."""

from oddone.data.cache import clean_cache
from oddone.data.image_set import BrokenFile, ImageSet
from oddone.data.notation import load
from oddone.data.stream import ImageStream, StreamedImage, stream

__all__ = [
    "BrokenFile",
    "ImageSet",
    "ImageStream",
    "StreamedImage",
    "clean_cache",
    "load",
    "stream",
]
