"""What tests ask of a figure."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text


def axes_of(figure: Figure, label: str) -> list[Axes]:
    """Return the axes with this label."""
    return [axes for axes in figure.axes if axes.get_label() == label]


def texts_of(figure: Figure) -> list[Text]:
    """Return the texts that are to be seen in a figure."""
    texts = list(figure.texts)
    for legend in figure.legends:
        texts += legend.get_texts()
    for axes in figure.axes:
        texts += axes.texts
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            shown = [tick.label1 for tick in ticks if tick.label1.get_visible()]
            texts += [axis.label, *shown]
    return [text for text in texts if text.get_text()]


def words_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in texts_of(figure)]


def keys_of(figure: Figure) -> list[str]:
    """Return what the keys of the figure say."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def check_layout(figure: Figure, *, over_pictures: bool = False) -> None:
    """Check that no text leaves the figure, or lies over another text or a picture."""
    figure.draw_without_rendering()
    texts = texts_of(figure)
    pictures = [] if over_pictures else [axes for axes in figure.axes if axes.images]
    names = [text.get_text() for text in texts] + [axes.get_label() for axes in pictures]
    boxes = np.array([artist.get_window_extent().extents for artist in (*texts, *pictures)])
    low, high = boxes[:, :2], boxes[:, 2:]
    inside = ((low >= 0) & (high <= figure.bbox.size)).all(axis=1)
    assert not [name for name, is_inside in zip(names, inside, strict=True) if not is_inside]
    overlap = ((low[:, None] < high) & (low < high[:, None])).all(axis=2)
    pairs = np.argwhere(np.triu(overlap, k=1))
    assert not [(names[one], names[other]) for one, other in pairs]
