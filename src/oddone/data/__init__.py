"""Data sources: from files of many kinds to images of one size."""

from oddone.data.cache import clean_cache
from oddone.data.image_set import BrokenFile, ImageSet
from oddone.data.notation import load
from oddone.data.stream import Picture, stream

__all__ = ["BrokenFile", "ImageSet", "Picture", "clean_cache", "load", "stream"]
