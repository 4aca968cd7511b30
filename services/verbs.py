"""The table of the commands.

It names modules as strings, so that this package never imports `pipelines`, and help and completion load neither torch
nor Ray nor MLflow.
"""

import importlib
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from dragoman.conf.groups import RECIPE
from dragoman.conf.showing import OPTION
from dragoman.model.errors import UserError


class Verb(NamedTuple):
    """A command: the module whose `main(argv) -> exit code` it runs, its help, and what it composes."""

    module: str
    help: str
    usage: str
    sections: tuple[str, ...]  # the configuration sections that it reads first of all
    root: str  # the file of conf/ that it composes
    json: str = ""  # it has --json: ROWS, or the setting that --json stands for


ROWS = "rows"  # its rows and records go through conf/showing.py
FORMAT = "format=json"  # --json stands for this setting


def _verb(module: str, help: str, sections: str = "", words: str = "", json: str = "", root: str = RECIPE) -> Verb:
    return Verb(module, help, f"{words} [key=value ...]".lstrip(), tuple(sections.split()), root, json)


def _job(help: str, words: str = "JOB", json: str = ROWS) -> Verb:
    return _verb("dragoman.services.jobs.client.entries", help, "jobs", words, json, "jobs")


def _command(module: str, help: str, sections: str = "", words: str = "", json: str = "", root: str = "") -> Verb:
    return _verb(f"dragoman.services.commands.{module}", help, sections, words, json, root or module)


def _model(help: str, sections: str, words: str = "", json: str = "") -> Verb:
    return _verb("dragoman.services.entries", help, sections, words, json, sections.split()[0])


_pipeline = partial(_verb, "dragoman.pipelines.entries")
VERBS: dict[str, Verb] = {
    "shard": _pipeline("pack a corpus into shards", "corpus tokenizer shards cluster"),
    "train": _pipeline("train a model on shards; the same name again resumes", "model train loader cluster tracking"),
    "verify": _pipeline(
        "check that a run saw the batches of an undisturbed one, and kept its files", words="RUN", json=ROWS
    ),
    "import": _verb(
        "dragoman.pipelines.import_model",
        "bundle another's model: BERT, GPT-2, Llama, BART, Marian, NLLB, vectors",
        "imports registry",
        "FOLDER|hf://ORG/NAME|FILE",
    ),
    "evaluate": _pipeline("score a trained model on a held-out set", "evaluate decode alignment registry", json=ROWS),
    "compare": _pipeline(
        "train networks with equal budgets and compare them in one table",
        "compare train evaluate cluster",
        "models=[MODEL,...]",
    ),
    "promote": _pipeline("make the better model the champion", "promote registry tracking"),
    "rollback": _pipeline("make the previous champion the champion again", "promote registry tracking"),
    "sync": _verb("dragoman.pipelines.sync", "send records that wait on disk to MLflow", "tracking"),
    "synthesize": _pipeline("translate shards into a corpus for another model, and keep its best pairs", "synthesize"),
    "unpack": _verb("dragoman.pipelines.unpack", "turn shards back into text", "shards"),
    "translate": _model(
        "translate a text, files or standard input, no server", "translate decode alignment", "[TEXT]", json=FORMAT
    ),
    "generate": _model("continue texts with a language model, no server", "generate", "[TEXT]", json=FORMAT),
    "predict": _model(
        "give the classes or the tags of a text, or its next or masked tokens",
        "predict",
        "[TEXT]",
        json=FORMAT,
    ),
    "embed": _model("turn texts into vectors, no server", "embed", "[TEXT]", json=FORMAT),
    "score": _model("compute log-probabilities of pairs or texts, no server", "score", json=FORMAT),
    "rerank": _model("reorder another system's n-best lists with our model's score", "rerank"),
    "serve": _model("serve translations over HTTP", "serve decode"),
    "neighbours": _command("query", "find the words nearest to a word, by its vector", "query", "WORD...", json=FORMAT),
    "analogy": _command("query", "find the words that are to C as B is to A", "query", "A B C...", json=FORMAT),
    "export": _command(
        "export", "write models in other programs' formats", "export", "[FORMAT... | huggingface [RUN]]"
    ),
    "inspect": _command(
        "inspect", "show the content and origin of a shard, bundle or checkpoint", "inspect", "PATH", json=FORMAT
    ),
    "runs": _command("runs", "list the runs: state, score, age, size", "runs", json=ROWS),
    "models": _command("models", "list the registered versions: alias, score, age, size", "tracking", json=ROWS),
    "keys": _command(
        "keys",
        "manage the API keys of `dragoman serve`: add, list, show, revoke",
        "keys",
        "[add NAME | list | show NAME | revoke NAME]",
        json=ROWS,
    ),
    "up": _verb("dragoman.services.jobs.up.entry", "run the whole service here, until Ctrl-C", "service", root="up"),
    "submit": _job("plan a verb and queue it as a job", "VERB [--from JOB]"),
    "jobs": _job("list the jobs (-f: live)", "[-f]"),
    "job": _job("show a job and its history"),
    "why": _job("show what a job waits for, and until when"),
    "logs": _job("show a job's output (-f: follow it)", "JOB [-f]", json=""),
    "stop": _job("stop a job"),
    "yield": _job("make a job release its resources and resume later"),
    "retry": _job("queue an ended job again"),
    "priority": _job("set a job's priority", "JOB low|normal|high"),
    "rm": _job("delete an ended job"),
    "sweep": _verb(
        "dragoman.services.sweeps.entries",
        "search over settings: trials are jobs, bad ones stop early",
        "sweep jobs",
        "train 'KEY=choice(A,B)' 'KEY=interval(A,B)'",
        ROWS,
        "sweep",
    ),
    "quota": _job("show or set the quota of an owner", "[OWNER cpus=N|none gpus=N|none jobs=N|none]"),
    "token": _job(
        "manage the service's API tokens: list, issue, rotate, revoke",
        "[issue NAME owner=OWNER role=ROLE ends=90d | rotate NAME | revoke NAME]",
    ),
    "doctor": _command(
        "doctor", "report what this machine offers and lacks", "cluster tracking", json=ROWS, root=RECIPE
    ),
    "demo": _command("demo", "run everything on the built-in corpus, in minutes", root=RECIPE),
}
TEXT_FIRST = {"translate", "generate", "predict", "embed"}  # they take a text
_MODULES = [verb.module for verb in VERBS.values()]


def take_json(name: str, words: Sequence[str]) -> tuple[bool, list[str]]:
    """Returns whether `--json` is among the words, and the words without it, with the setting that it stands for."""
    rest = [word for word in words if word != OPTION]
    if len(rest) == len(words):
        return False, rest
    stands_for = VERBS[name].json
    if not stands_for:
        able = ", ".join(verb for verb, row in VERBS.items() if row.json)
        raise UserError(f"{OPTION}: it prints no rows and no record; these do: {able}")
    if stands_for == ROWS:
        return True, rest
    first = next((place for place, word in enumerate(rest) if word.startswith("-")), len(rest))
    return False, [*rest[:first], stands_for, *rest[first:]]


def run_verb(name: str, words: Sequence[str]) -> int:
    """Runs a command with its words; returns its exit code."""
    module = importlib.import_module(VERBS[name].module)
    shared = _MODULES.count(VERBS[name].module) > 1  # a module of several commands gets the command's name
    code: int = module.main([name, *words] if shared else list(words))
    return code
