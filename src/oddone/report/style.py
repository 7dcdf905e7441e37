"""What all figures have in common: colours for colour-blind readers too, fonts, and files."""

import io
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import UInt8
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.typing import ColorType

from oddone.errors import SettingsError
from oddone.files import write_atomic
from oddone.wording import legible

# The palette of Okabe and Ito: blue is normal, vermilion is anomalous, grey is neither.
NORMAL, ANOMALOUS, UNKNOWN = "#0072B2", "#D55E00", "#595959"
BLACK, GREY, LIGHT_GREY, GRID = "#222222", "#6B6B6B", "#D9D9D9", "#EEEEEE"

ON_COLOUR = "#FEFEFE"
"""Of text on a strong colour: a white that stays white on a dark page."""

# Lines of one chart: more colours of that palette, each with a line of its own.
SERIES = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222")
DASHES = ("-", "--", "-.", ":")

# What these and the colours of t-SNE become on a dark page, whose cards have the first of these.
ON_DARK = {
    "#FFFFFF": "#212429",
    BLACK: "#ECECEC",
    GREY: "#A9A9A9",
    UNKNOWN: "#B4B4B4",
    LIGHT_GREY: "#4A4F57",
    GRID: "#31353C",
    NORMAL: "#6AB7E8",
    ANOMALOUS: "#FF9A5C",
    "#009E73": "#45C8A2",
    "#332288": "#9B92EE",
    "#117733": "#56B877",
    "#882255": "#D673A6",
    "#AA4499": "#D488C8",
    "#CC6677": "#E58F9D",
    "#999933": "#BDBD5A",
}

DPI = 150
SUFFIXES = (".png", ".svg", ".pdf")
WIDTH = 5.2  # inches of a figure that fills a phone, so that its type can be read there

# Matplotlib's own font has no Chinese, Japanese or Korean; systems come with one of these.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
)
_INSTALLED = {font.name for font in fontManager.ttflist}

_STYLE: dict[Any, Any] = {
    "font.family": [font for font in _FONTS if font in _INSTALLED],
    "font.size": 9.5,
    "text.color": BLACK,
    "text.parse_math": False,  # a class may be called $x$
    "text.usetex": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.bbox": None,
    "savefig.facecolor": "auto",
    "svg.hashsalt": "oddone",  # the same figure is the same file
}


@contextmanager
def drawing_style() -> Iterator[None]:
    """Draw in our style within this context, whatever the user's own settings are."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # A name in a script that no font here has is shown as boxes; the rest stays readable.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def translucent(colour: str, alpha: float = 0.45) -> ColorType:
    """Return a colour through which others are seen, for what is less important."""
    return (colour, alpha)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this many inches, which pyplot does not know."""
    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    return figure


def axes_at(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Return new axes, placed by inches from the figure's top left corner."""
    across, down = figure.get_size_inches()
    return figure.add_axes(
        (left / across, 1 - (top + height) / down, width / across, height / down)
    )


def write_text(
    figure: Figure, left: float, top: float, words: str, width: float, **style: Any
) -> Text:
    """Write a line by inches from the top left, shortened in the middle to be no wider."""
    across, down = figure.get_size_inches()
    text = figure.text(left / across, 1 - top / down, legible(words), **{"va": "top", **style})
    return shorten_to_width(text, width)


def shorten_to_width(text: Text, inches: float) -> Text:
    """Return the text, shortened in the middle where it is wider than that."""
    whole = text.get_text()

    def width(kept: int) -> float:
        text.set_text(shorten(whole, kept))
        return text.get_window_extent().width / DPI

    if width(len(whole)) > inches:
        width(bisect_right(range(1, len(whole)), inches, key=width))
    return text


def shorten(name: str, most: int) -> str:
    """Return a name of at most so many characters; the middle gives way to an ellipsis."""
    if len(name) <= most:
        return name
    back = (most - 1) // 2
    return f"{name[: most - 1 - back]}…{name[len(name) - back :]}"


def show_image(
    figure: Figure,
    left: float,
    top: float,
    side: float,
    image: UInt8[np.ndarray, "height width 3"],
) -> Axes:
    """Return axes that show a picture; where it is enlarged, its pixels become squares."""
    axes = axes_at(figure, left, top, side, side)
    enlarged = max(image.shape[:2]) < side * DPI
    axes.imshow(image, interpolation="nearest" if enlarged else "antialiased")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    return axes


def legend_at(
    figure: Figure, left: float, top: float, handles: Sequence[Artist], columns: int = 1
) -> Legend:
    """Return a legend, placed by inches from the figure's top left corner."""
    across, down = figure.get_size_inches()
    return figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(left / across, 1 - top / down),
        ncols=columns,
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        columnspacing=1.5,
        handletextpad=0.6,
    )


def figure_bytes(figure: Figure, suffix: str) -> bytes:
    """Return a figure as a file of the type that the suffix names."""
    content = io.BytesIO()
    metadata = {"Date": None} if suffix == ".svg" else None
    with drawing_style():
        figure.savefig(content, format=suffix[1:], dpi=DPI, metadata=metadata)
    return content.getvalue()


def svg_for_pages(figure: Figure) -> bytes:
    """Return a figure as SVG that turns dark where the page around it does.

    Pictures in it stay as they are, and who ignores the style sees the light figure.
    """
    rules = "".join(
        f'[style*="{what}: {light.lower()}"]{{{what}:{dark.lower()}!important}}'
        for light, dark in ON_DARK.items()
        for what in ("fill", "stroke")
    )
    dark_style = f"@media(prefers-color-scheme:dark){{{rules}}}</style>"
    return figure_bytes(figure, ".svg").replace(b"</style>", dark_style.encode(), 1)


def check_figure_path(path: Path) -> None:
    """Raise a `SettingsError` unless a picture can be saved under that name."""
    if path.suffix.lower() not in SUFFIXES:
        raise SettingsError(f"{path}: let the name of a picture end in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise SettingsError(f"{path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise SettingsError(f"{path} is a folder; name a file in it")


def save_figure(figure: Figure, path: Path | str) -> None:
    """Write a figure as .png, .svg or .pdf, as the name ends; a file of that name is replaced."""
    path = Path(path)
    check_figure_path(path)
    content = figure_bytes(figure, path.suffix.lower())
    try:
        write_atomic(path, content)
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be written: {error.strerror}; choose another place"
        ) from error
