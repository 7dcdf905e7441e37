"""The settings of `oddone train` on its command line: from flags, a file and a preset."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cyclopts import App, Argument, ArgumentCollection, Token
from cyclopts.config import Dict
from cyclopts.help import HelpEntry, HelpPanel
from cyclopts.help.formatters import DefaultFormatter
from rich.console import Console, ConsoleOptions

from oddone.encoders import TrainedNetwork, default_image_size, is_pretrained, load_network
from oddone.errors import SettingsError, did_you_mean
from oddone.files import ENCODER_NAME, file_or_in_run
from oddone.presets import PRESETS, pretrained
from oddone.suited_settings import preset_for
from oddone.training import RunDirectory, TrainSettings
from oddone.training.settings import LENGTHS
from oddone.training.settings_file import read_toml, to_dict

ALLOWED_WITH_RESUME = (
    "--resume",
    "--source",
    *(f"--{length}" for length in LENGTHS),
    "--tensorboard",
    "--processes",
    "--debug",
)
DEFAULT_PRESET = "cpu"
ALIASES = {
    "--lr": "--optimiser.learning-rate",
    "--learning-rate": "--optimiser.learning-rate",
    "--momentum": "--optimiser.momentum",
    "--weight-decay": "--optimiser.weight-decay",
    "--batch-size": "--batch.images",
    "--size": "--model.image-size",
    "--image-size": "--model.image-size",
    "--encoder": "--model.encoder-name",
    "--model.encoder": "--model.encoder-name",
    "--temperature": "--loss.temperature",
    "--alpha": "--loss.alpha",
    "--beta": "--loss.beta",
}
"""The usual names of some settings, and what the help calls them."""


def use_full_names(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give the values of aliases to the settings that they stand for; refuse a value for a section.

    Cyclopts calls this function with the parsed command line.
    """
    by_name = {argument.name: argument for argument in arguments}
    aliases = by_name[next(iter(ALIASES))]  # one argument, whose names are all aliases
    for token in aliases.tokens:
        assert token.keyword is not None  # noqa: S101  (an alias is never given by position)
        alias = token.keyword.replace("_", "-")  # cyclopts takes --batch_size for --batch-size
        by_name[ALIASES[alias]].append(token.evolve(index=0))
    aliases.tokens = []
    for argument in arguments:
        if argument.tokens and argument.children:
            raise _section_error(argument)


def _section_error(section: Argument) -> SettingsError:
    """Return what is wrong with `--batch 64`, which names no setting."""
    *others, last = (child.name for child in section.children)
    return SettingsError(
        f"{section.name} {section.tokens[0].value}: {section.name} alone is no setting; choose "
        f"{', '.join(others)} or {last}"
    )


def resolve_settings(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Take settings without a flag from --config FILE, and those not in it from --preset NAME.

    With --resume RUN they are those of the run. Cyclopts calls this function with the parsed
    command line.
    """
    flags = {argument.name: [token.value for token in argument.tokens] for argument in arguments}
    _check_resume(flags)
    if flags["--resume"]:
        run = flags["--resume"][0]
        sources = [(run, to_dict(RunDirectory.open(Path(run)).settings))]
    else:
        sources = [(config, read_toml(Path(config))) for config in flags["--config"]]
        if flags["--batch.images"] or any("images" in read.get("batch", {}) for _, read in sources):
            arguments.get("--keep-batch").append(Token(keyword="--keep-batch", implicit_value=True))
        sources.append(_suited_source(flags, [read for _, read in sources]))
    length_is_set = any(flags[f"--{length}"] for length in LENGTHS)
    for source, tables in sources:
        # A run has one length: from the flags, or else from the file, or else from the preset.
        dropped = LENGTHS if length_is_set else ()
        kept = {key: value for key, value in tables.items() if key not in dropped}
        length_is_set |= any(length in kept for length in LENGTHS)
        Dict(kept, use_commands_as_keys=False, source=source)(app, commands, arguments)


def _suited_source(
    flags: Mapping[str, list[str]], configs: Sequence[Mapping[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """Return what is set neither by a flag nor in a file: the preset, made to suit the encoder.

    That is the one that is named there, or else the one to start from.
    """
    in_files = [read["model"]["encoder_name"] for read in configs if _names_encoder(read)]
    start = _network_to_start_from(flags)
    from_start = [] if start is None else [start.model.encoder_name]
    encoder_name = next(iter((*flags["--model.encoder-name"], *in_files, *from_start)), None)
    name = flags["--preset"][0] if flags["--preset"] else _suited_preset(flags, encoder_name)
    preset = _preset(name)
    if start is not None:
        part = preset.model.trained_part
        model = replace(start.model, image_size=start.image_size, trained_part=part)
        preset = replace(preset, model=model)
    elif encoder_name is not None:
        preset = _sized_for(encoder_name, preset)
    return f"preset {name}", to_dict(preset)


def _names_encoder(read: Mapping[str, Any]) -> bool:
    return "encoder_name" in read.get("model", {})


def _network_to_start_from(flags: Mapping[str, list[str]]) -> TrainedNetwork | None:
    if not flags["--start"]:
        return None
    sha256 = next(iter(flags["--sha256"]), None)
    return load_network(file_or_in_run(Path(flags["--start"][0]), ENCODER_NAME), sha256=sha256)


def _suited_preset(flags: Mapping[str, list[str]], encoder_name: str | None) -> str:
    """Return the preset for a command line without one."""
    if not flags["--source"] or flags["--outliers"]:
        return DEFAULT_PRESET
    if encoder_name is not None:
        return pretrained.__name__ if is_pretrained(encoder_name) else DEFAULT_PRESET
    if flags["--config"]:
        return DEFAULT_PRESET
    return preset_for(flags["--source"][0]) or DEFAULT_PRESET


def _sized_for(encoder_name: str, preset: TrainSettings) -> TrainSettings:
    """Return the preset with the image size of an encoder, if it sets one."""
    if preset.model.image_size is None:
        return preset
    size = default_image_size(encoder_name) if is_pretrained(encoder_name) else None
    return replace(preset, model=replace(preset.model, image_size=size))


def _check_resume(flags: Mapping[str, list[str]]) -> None:
    """Raise a SettingsError if --resume comes with options that would have no effect."""
    ignored = [name for name, given in flags.items() if given and name not in ALLOWED_WITH_RESUME]
    if flags["--resume"] and ignored:
        raise SettingsError(
            f"--resume goes on as the run began, so {', '.join(ignored)} would change nothing; "
            f"leave it out, or begin another run with --config RUN/settings.toml. Only the length "
            f"can be changed (--minutes, --steps or --epochs), and where the images are (--source)"
        )


def _preset(name: str) -> TrainSettings:
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS, otherwise=f"the presets are {', '.join(PRESETS)}")
        raise SettingsError(f"--preset {name}: there is no such preset; {hint}")
    return PRESETS[name]()


class HelpOfPreset:
    """Prints the help with the defaults of the preset on the command line.

    Cyclopts alone would show those of the dataclasses.
    """

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        defaults = flags_of(_preset(_preset_of(sys.argv)))
        entries = [_with_default(entry, defaults) for entry in panel.entries]
        DefaultFormatter()(console, options, panel.copy(entries=entries))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        DefaultFormatter().render_usage(console, options, usage)


def _preset_of(words: list[str]) -> str:
    """Return the preset that the words of a command line name."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--preset":
            return following
        if word.startswith("--preset="):
            return word.removeprefix("--preset=")
    return DEFAULT_PRESET


def flags_of(settings: TrainSettings) -> dict[str, str]:
    """Return the flag of each setting, and its value as it would be written there."""
    return dict(_flags(to_dict(settings)))


def _flags(settings: Mapping[str, Any], above: str = "--") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        flag = f"{above}{name.replace('_', '-')}"
        if isinstance(value, Mapping):
            yield from _flags(value, f"{flag}.")
        elif isinstance(value, list):
            yield flag, " ".join(f"{number:.4g}" for number in value)
        else:
            yield flag, str(value)


def _with_default(entry: HelpEntry, defaults: Mapping[str, str]) -> HelpEntry:
    default = next((defaults[name] for name in entry.names if name in defaults), entry.default)
    return entry.copy(default=default)
