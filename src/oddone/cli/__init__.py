"""The command line: one file per verb. Nothing here imports torch until a verb needs it."""

# libgomp's threads spin while they wait for each other. When another program takes one of their
# cores away, the spinning thread keeps the delayed one from running (docs/decisions/0004). This
# must be set before torch is imported.
import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import sys
import traceback
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError
from rich.console import Console
from rich.text import Text

from oddone import __version__
from oddone.cli import data
from oddone.cli.terminal import printable
from oddone.cli.whole_numbers import check_whole_numbers
from oddone.errors import OddOneError, did_you_mean

app = App(
    name="oddone",
    version=__version__,
    help="Train an image classifier that knows when it is looking at something it has never seen.",
    help_format="markdown",
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    config=check_whole_numbers,
)
app.command(data.app)

# These import torch, so only when asked for. What their help says first is therefore here.
for name, purpose, example in (
    (
        "train",
        "Train a detector on labelled images, or go on with a run that was stopped.",
        "oddone train photos/ --out run --minutes 30",
    ),
    (
        "score",
        "Label images, and say which are none of the classes.",
        "oddone score run new-photos/ --out scores.csv",
    ),
    (
        "explain",
        "Draw a picture of why an image got its verdict.",
        "oddone explain run photo.jpg --out why.png",
    ),
    (
        "evaluate",
        "Measure a detector: accuracy, and AUROC against images it should find odd.",
        "oddone evaluate run test-photos/ --ood weeds=weeds/ --out result.json",
    ),
    (
        "report",
        "Draw all about a detector, or a record of a bench, on one page to look at.",
        "oddone report run --test test-photos/ --ood weeds=weeds/ --out report.html",
    ),
    (
        "calibrate",
        "Set a detector's threshold by images that are normal and new to it.",
        "oddone calibrate run normal-photos/ --false-alarms 0.01",
    ),
    (
        "bench",
        "Fill the paper's tables again, or show them: every method, row by row.",
        "oddone bench paper-sei --data datasets --out bench",
    ),
    (
        "demo",
        "Train, calibrate, evaluate and explain on the images inside oddone.",
        "oddone demo",
    ),
):
    help_text = f"{purpose}\n\nExample: `{example}`"
    app.command(f"oddone.cli.{name}:app", name=name, help=help_text)


@app.meta.default
def launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    debug: Annotated[bool, Parameter(negative=(), help="Show the traceback of an error.")] = False,
) -> int:
    """Return the exit code of one command; an error of the user's making is one line and 2."""
    try:
        return app(tokens) or 0
    except OddOneError as error:
        if not debug:
            return _told(error)
        traceback.print_exc()
        return 2


def main() -> None:
    """Run the command line and exit."""
    try:
        code = app.meta(sys.argv[1:])
    # An unknown command or option, or a command whose extra is missing: no traceback says more.
    except (CycloptsError, OddOneError) as error:
        code = _told(error)
    sys.exit(code or 0)


def _told(error: OddOneError | CycloptsError) -> int:
    """Return the exit code for an error, after saying in one line what it is."""
    if isinstance(error, UnknownCommandError) and error.app is app and error.unused_tokens:
        message = _unknown_command(error.unused_tokens[0])
    else:
        message = str(error)
    line = Text.assemble(("oddone: ", "bold red"), printable(message))
    Console(stderr=True).print(line, highlight=False, soft_wrap=True)
    return 2


def _unknown_command(word: str) -> str:
    """Return what cyclopts would say, without importing all commands, and torch, to say it."""
    commands = [name for name in app if not name.startswith("-")]
    hint = did_you_mean(word, commands, otherwise=f"the commands are {', '.join(commands)}")
    return f"unknown command {word!r}; {hint}"
