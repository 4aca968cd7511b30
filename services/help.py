"""Help pages, made from the table of commands and the configuration files; imports nothing heavy."""

import textwrap
from collections.abc import Mapping, Sequence

from dragoman.conf import groups
from dragoman.services.verbs import Verb

WIDTH, SCREEN = 100, 24  # columns, and lines of a page of help


# a line to copy for each verb that takes words
EXAMPLES = {
    **dict.fromkeys(("job", "why", "stop", "yield", "retry", "rm"), "JOB"),
    "shard": "corpus=tsv corpus.train.file=pairs.tsv pair=en-de",
    "train": "experiment=demo train.max_steps=400",
    "verify": "RUN",
    "import": "FOLDER name=opus pair=en-de",
    "evaluate": "evaluate.against=RUN",
    "compare": "models=[rnnsearch_additive,transformer_tiny] train.max_steps=1000",
    "promote": "promote.metric=chrf",
    "synthesize": "output=taught",
    "unpack": "output=pairs",
    "translate": "'The dog sees the man.'",
    "generate": "'The king' generate.max_tokens=40",
    "predict": "'The king' predict.steps=3",
    "embed": "'The dog sees the man.' format=json",
    "score": "input=pairs.tsv",
    "rerank": "rerank.nbest=nbest.txt",
    "serve": "serve.port=5050",
    "neighbours": "dog query.k=5",
    "analogy": "man king woman",
    "export": "huggingface RUN output=folder",
    "inspect": "RUN",
    "runs": "runs.shards=true",
    "models": "--json",
    "keys": "add anna keys.characters=1000000",
    "submit": "train model=rnnenc jobs.priority=high",
    "jobs": "-f",
    "logs": "JOB -f",
    "priority": "JOB high",
    "sweep": "train 'train.optimizer.lr=interval(0.0001,0.01)' sweep.trials=20",
    "quota": "anna jobs=4",
    "token": "issue laptop owner=anna role=submitter",
}
EVERYDAY = ("demo", "shard", "train", "evaluate", "compare", "promote", "translate", "serve", "up", "submit")
GROUPS = {
    "models": "runs models verify inspect rollback sync export import synthesize unpack",
    "answers": "generate predict embed score rerank neighbours analogy",
    "jobs": "jobs job why logs stop yield retry priority rm sweep",
    "service": "keys token quota doctor",
}


def general_help(verbs: Mapping[str, Verb]) -> str:
    """Returns the page of `dragoman --help`: the verbs of every day, and the others in groups."""
    rows = "\n".join(f"  {name:<11}{verbs[name].help}" for name in EVERYDAY)
    groups = "\n".join(f"  {name:<11}{', '.join(names.split())}" for name, names in GROUPS.items())
    return f"""Shard a corpus, train on every core or GPU, track, promote and serve the better translation model.

usage: dragoman VERB [key=value ...]

{rows}

more verbs
{groups}

Everything after the verb is configuration: corpus=multi30k model=transformer_tiny train.max_steps=4000
  dragoman help VERB                 an example, and the keys of a verb; dragoman VERB --help-all: with their defaults
  dragoman VERB ... --cfg job        the settings that the verb reads; nothing is started
  dragoman VERB ... --json           rows and records as JSON, one object a line, for the verbs that list or show
  dragoman VERB --config FILE        with your own settings from a YAML file, the command line's over them
  dragoman VERB --config-dir FOLDER  with your own FOLDER/experiment/NAME.yaml, FOLDER/model/NAME.yaml (DRAGOMAN_CONF)
  dragoman --version
  eval "$(dragoman --shell-completion install=bash)"    completion of verbs and keys (bash, zsh, fish)

Exit codes: 0 done, 1 failed, 2 a mistake in the command line or the configuration, 69 a disk, a server or a cluster
failed, 75 made room for another job, 130 ended by Ctrl-C, 143 by SIGTERM."""


def verb_help(name: str, verb: Verb, whole: bool = False) -> str:
    """Returns the page of `dragoman VERB --help`, one screen: an example, the usage, choices and keys; `whole`: of
    `--help-all`, with default values and their comments."""
    usage = f"usage: dragoman {name} {verb.usage}{' [--json]' if verb.json else ''}"
    parts = [f"dragoman {name}: {verb.help}", "", f"    dragoman {name} {EXAMPLES.get(name, '')}".rstrip(), ""]
    parts += textwrap.wrap(usage, WIDTH, subsequent_indent=" " * 12, break_on_hyphens=False)
    end = ["", "A key is set as SECTION.KEY=VALUE, a choice as SECTION=CHOICE."]
    if not whole and verb.sections:
        end.append(f"With default values and what they mean: dragoman {name} --help-all")
    end.append(f"The sections that it reads, as YAML: dragoman {name} [key=value ...] --cfg job")
    if whole:
        sections = (line for section in verb.sections for line in _whole_section(verb.root, section))
        return "\n".join([*parts, *(_shared_keys(verb.root) if verb.sections else ()), *sections, *end])
    values = groups.written(verb.root).items()
    own = [f"{key}=" for key, value in values if not isinstance(value, dict) and groups.reads(name, key)]
    for most in (SCREEN, 3, 2):
        lines = [
            *(_wrap("", own, 1) if own and verb.sections else []),
            *(line for section in verb.sections for line in _short_section(verb.root, section, most)),
        ]
        if len(page := [*parts, *([""] if lines else []), *lines, *end]) <= SCREEN:
            break
    return "\n".join(page)


def _short_section(root: str, section: str, most: int) -> list[str]:
    """Returns the names of a section's choices and keys, in at most so many lines each."""
    choices = groups.choices(section)
    keys = groups.written(root)[section].items()
    names = [f"{key}." if isinstance(value, dict) and value else key for key, value in keys]
    return [*(_wrap(f"{section}=", choices, most) if choices else []), *_wrap(f"{section}.", names, most)]


def _whole_section(root: str, section: str) -> list[str]:
    """Returns a section's choices and its keys as its file shows them."""
    choices, choice = groups.choices(section), groups.default_choices(root).get(section)
    parts = ["", f"{section}=  {', '.join(choices)}"] if choices else []
    title = f"{section}: ({choice})" if choice else f"{section}:"
    return [*parts, "", title, _indent(groups.section_page(root, section))]


def _shared_keys(root: str) -> list[str]:
    """Returns the keys of no section that several verbs have, as their files show them."""
    files = [file for file in groups.files(root) if file.startswith("shared/")]
    plain = [file for file in files if not any(isinstance(value, dict) for value in groups.content(file).values())]
    return [line for file in plain for line in ("", _indent(groups.text(file).partition("\n")[2]))]


def _wrap(head: str, names: Sequence[str], most: int) -> list[str]:
    wrapper = textwrap.TextWrapper(WIDTH, subsequent_indent=" " * 12, break_on_hyphens=False)
    wrapper.max_lines, wrapper.placeholder = most, f" ... ({len(names)} in all)"
    return wrapper.wrap(f"{head:<12}{', '.join(names)}")


def _indent(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.strip().splitlines())
