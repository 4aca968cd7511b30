"""Help pages, made from the table of commands and the configuration files; imports nothing heavy."""

from collections.abc import Mapping
from typing import Protocol

from dragoman.conf import groups


class VerbRow(Protocol):
    """The facts about a command that a help page needs."""

    @property
    def help(self) -> str: ...
    @property
    def usage(self) -> str: ...
    @property
    def sections(self) -> tuple[str, ...]: ...
    @property
    def json(self) -> str: ...


def general_help(verbs: Mapping[str, VerbRow]) -> str:
    """Returns the page of `dragoman --help`."""
    width = max(map(len, verbs))
    rows = "\n".join(f"  {name:<{width}}  {verb.help}" for name, verb in verbs.items())
    return f"""Shard a corpus, train on every core or GPU, track, promote and serve the better translation model.

usage: dragoman VERB [key=value ...]

{rows}

Everything after the verb is configuration: corpus=multi30k model=transformer_tiny train.max_steps=4000
  dragoman VERB --help               the keys of a verb, with their defaults
  dragoman VERB ... --cfg job        the whole configuration, as it would be used
  dragoman VERB ... --json           rows and records as JSON, one object a line, for the verbs that list or show
  dragoman VERB --config FILE        with your own settings from a YAML file, the command line's over them
  dragoman VERB --config-dir FOLDER  with your own FOLDER/experiment/NAME.yaml, FOLDER/model/NAME.yaml (DRAGOMAN_CONF)
  dragoman --version
  eval "$(dragoman --shell-completion install=bash)"    completion of verbs and keys (bash, zsh, fish)

Exit codes: 0 done, 1 failed, 2 a mistake in the command line or the configuration, 130 ended by Ctrl-C,
143 by SIGTERM."""


def verb_help(name: str, verb: VerbRow) -> str:
    """Returns the page of `dragoman VERB --help`: usage, choices of each group, default values with their comments."""
    parts = [
        f"dragoman {name}: {verb.help}",
        "",
        f"usage: dragoman {name} {verb.usage}{' [--json]' if verb.json else ''}",
    ]
    for section in verb.sections:
        choices = groups.choices(section)
        if len(choices) > 1:
            parts += ["", f"{section}=  {', '.join(choices)}"]
        if (choice := groups.default_choices().get(section)) is not None:
            parts += ["", f"{section}: ({choice})", _indent(groups.page(section, choice))]
    parts += [
        "",
        "A key is set as SECTION.KEY=VALUE, a choice as SECTION=CHOICE. All sections, with the values that this",
        f"command line would use: dragoman {name} [key=value ...] --cfg job",
    ]
    return "\n".join(parts)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.strip().splitlines())
