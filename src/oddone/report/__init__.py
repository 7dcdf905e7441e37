"""Pictures for people who never heard of the method.

One of them shows one verdict (`explanation`), and a page of them all about a detector: what to show
is collected in `gather`, drawn by one file per figure, given words in `figures`, and put together
in `page`. Another page is about benches (`record_page`). Both are laid out by `layout`.
"""

from oddone.errors import SettingsError

try:
    import matplotlib as mpl  # noqa: F401  (an extra, which only this package imports)
except ImportError as error:
    raise SettingsError(
        "pictures need a package that is not here: pip install 'oddone[report]'"
    ) from error

from oddone.report.explanation import draw_explanation
from oddone.report.style import save_figure

__all__ = ["draw_explanation", "save_figure"]
