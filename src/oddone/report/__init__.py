"""Figures and pages for people who never heard of the method; what `oddone[report]` is for.

`explanation` draws one verdict. A page on detectors is made in three steps: `collect` scores the
images, `figures` draws them (one file per figure) with captions, and `detector_page` renders the
page. A page on records of `oddone bench` is made by `records` and `record_page`. Both pages are
templates in `templates/`, rendered by `html_page`.
"""

from oddone.errors import SettingsError

try:  # an extra, which only this package imports
    import jinja2  # noqa: F401
    import matplotlib as mpl  # noqa: F401
except ImportError as error:
    raise SettingsError(
        f"figures and reports need {error.name}, which is not installed: "
        f"pip install 'oddone[report]'"
    ) from error

from oddone.report.explanation import draw_explanation
from oddone.report.style import check_figure_path, save_figure

__all__ = ["check_figure_path", "draw_explanation", "save_figure"]
