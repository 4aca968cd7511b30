"""A command that names no corpus, run or model takes the only one of the home.

`dragoman shard corpus=tsv ...` is followed by `dragoman train`, `promote` and `serve`, which need the same words again.
Where the home has one sharding, champion or run, these are its words; where it has several, they are listed; where it
has none, the message says how to make one.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.conf import compose
from dragoman.conf.groups import sections
from dragoman.conf.kinds import kind_words
from dragoman.model.bundles.directory import bundle_kind
from dragoman.model.errors import UserError
from dragoman.model.runs.bundles import bundles
from dragoman.model.runs.paths import RELEASE

OF_SHARDS = ("train", "evaluate", "promote", "rollback", "compare")
# verb -> its section, and the kinds of model that it takes; none: every kind
OF_MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "translate": ("translate", ("translation",)), "rerank": ("rerank", ("translation",)),
    "score": ("score", ("translation", "language")), "generate": ("generate", ("language",)),
    "next": ("guess", ("language",)), "fill": ("guess", ("masked",)), "classify": ("label", ("labels",)),
    "tag": ("label", ("labels",)), "embed": ("embed", ()), "serve": ("serve", ()),
}  # fmt: skip
SERVED = {"labels": "labels", "vectors": "vectors", "language": "guesser", "masked": "guesser"}  # kind -> key of serve
NAMING = ("corpus", "experiment", "pair", "name", "paths", "tokenizer", "registry", "model", "models")  # sections
POINTING = (".bundle", ".model", ".models", ".ensemble", ".labels", ".vectors", ".encoder", ".guesser", "tracking_uri",
            ".uri", ".wait")  # ends of keys  # fmt: skip
OPTIONS = ("-m", "--multirun", "--json")
MOST = 8  # shardings, champions or runs to list
SHARD = "dragoman shard corpus=tsv pair=en-de corpus.train.file=PAIRS.tsv"
BUILT_IN = "corpus=everyday takes the built-in sentences"


class Model(NamedTuple):
    """The model of a run of the home."""

    run: str
    kind: str
    registered: str = ""  # its name in the registry
    shards: str = ""


def with_home(verb: str, words: Sequence[str]) -> list[str]:
    """Returns the words, with those of the home's only shards or model behind a text if they name none themselves.

    Raises:
        UserError: the home has several, whose words are listed, or none.
    """
    if verb not in ("shard", *OF_SHARDS, *OF_MODELS) or compose.is_rehearsal():
        return list(words)
    settings = [word for word in words if verb not in OF_MODELS or _is_setting(word) or word.startswith("-")]
    if not all(map(_is_setting, settings)):  # its own mistake comes first
        return list(words)
    if verb == "shard" and not any(_key(word).partition(".")[0] in ("corpus", "experiment") for word in words):
        raise UserError(f"name a corpus: {SHARD}; {BUILT_IN}")
    if verb == "shard" or any(_says_which(word, verb) for word in settings):
        return list(words)
    home = Path(os.environ.get("DRAGOMAN_HOME") or "artifacts")
    found = (_models if verb in OF_MODELS else _shardings)(verb, words, home)
    if len(found) > 1:
        lines = [f"  dragoman {verb} {shlex.join([*_texts(words), *own, *settings])}" for own in found[:MOST]]
        what = "models" if verb in OF_MODELS else "shardings" if found[0][-1][:5] != "name=" else "runs"
        raise UserError("\n".join([f"the home has {len(found)} {what}; say which:", *lines]))
    for own in found:
        print(f"dragoman {verb}: the only one in {home}: {shlex.join(own)}", file=sys.stderr)
    return [*_texts(words), *(word for own in found for word in own), *words[len(_texts(words)) :]]


def _texts(words: Sequence[str]) -> list[str]:
    """Returns the words before the first setting."""
    first = next((place for place, word in enumerate(words) if _is_setting(word)), len(words))
    return list(words[:first])


def _key(word: str) -> str:
    return word.lstrip("+~").partition("=")[0]


def _is_setting(word: str) -> bool:
    """Returns False for a text, or a word that will be refused."""
    return word in OPTIONS or _key(word).partition(".")[0] in (*sections(), "experiment")


def _says_which(word: str, verb: str) -> bool:
    if "=" not in word:  # a run's folder, a file
        return word not in OPTIONS
    named = _key(word).partition(".")[0] in NAMING and (word[:5] != "pair=" or verb in OF_SHARDS)
    return named or _key(word).endswith(POINTING)


def _shardings(verb: str, words: Sequence[str], home: Path) -> list[list[str]]:
    """Returns the words of each finished sharding of the home; for an evaluation those of each run on the only one."""
    found = list(shardings(home / "shards"))
    if not found:
        raise UserError(f"no shards in {home / 'shards'}; make some: {SHARD}; {BUILT_IN}")
    if any(word.startswith("train.init_from=") for word in words):  # it says which network
        found = [[word for word in own if word != "model=gpt_tiny"] for own in found]
    if verb == "evaluate" and len(found) == 1:
        runs = [model.run for model in models(home / "runs") if model.shards]
        return [[*found[0], f"name={run}"] for run in runs] or found
    return found


def shardings(folder: Path) -> Iterator[list[str]]:
    """Yields the words of each finished sharding in a folder, by name."""
    for path in sorted(folder.glob("*/manifest.json")):
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            yield words_of(manifest, path.parent)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # damaged: who names it is told


def words_of(manifest: dict[str, Any], folder: Path) -> list[str]:
    """Returns the settings that lead to these shards and to the kind of model that is trained on them."""
    corpus, tokenizer = manifest["config"]["corpus"], manifest["config"]["tokenizer"]
    form, pair = str(corpus["format"]), str(manifest["config"]["pair"])
    words = [f"corpus={form}"]
    if corpus["name"] != form:
        words.append(f"corpus.name={corpus['name']}")
    words += [f"pair={pair}", f"tokenizer={tokenizer['type']}"]
    words += kind_words(form, corpus.get("labels", "classes"), len(pair.split("-")), tokenizer["type"])
    if folder.name != f"{corpus['name']}-{pair}-{tokenizer['type']}":
        words.append(f"paths.shards={folder}")
    return words


def models(runs: Path) -> Iterator[Model]:
    """Yields the model of each run that has one, by name."""
    for bundle in sorted(bundles(runs)):
        try:
            release = json.loads((bundle.parent / RELEASE).read_text(encoding="utf-8"))
            registered, shards = str(release.get("model") or ""), str(release.get("shards") or "")
            yield Model(bundle.parent.name, bundle_kind(bundle), registered, shards)
        except (OSError, ValueError, UserError):
            continue  # damaged or not released: who names it is told


def _models(verb: str, _words: Sequence[str], home: Path) -> list[list[str]]:
    """Returns the words of each champion that the verb takes; without champions those of each run."""
    section, kinds = OF_MODELS[verb]
    everything = list(models(home / "runs"))
    fitting = [model for model in everything if not kinds or model.kind in kinds]
    other = {model.registered for model in everything} - {model.registered for model in fitting}
    remote = os.environ.get("MLFLOW_TRACKING_URI")
    champions: list[str] = []
    if remote or (home / "mlflow" / "mlflow.db").is_file():
        from dragoman.services.models.registry import Registry  # loads MLflow

        registry = Registry(remote or f"sqlite:///{home / 'mlflow' / 'mlflow.db'}", home)
        with registry.asking():
            champions = sorted(name for (name, _), aliases in registry.aliases().items() if "champion" in aliases)
    if names := [name for name in champions if name not in other]:
        kind_by_name = {model.registered: model.kind for model in fitting}
        return [_pointing(section, kind_by_name.get(name, ""), "model", f"models:/{name}@champion") for name in names]
    if everything and not fitting and not remote:  # of an empty home the verb itself says what to do
        raise UserError(
            f"no {' or '.join(kinds)} model in {home}; `dragoman import` takes another's, and of your own data: "
            f"{SHARD}, then dragoman train"
        )
    return [_pointing(section, model.kind, "bundle", model.run) for model in fitting]


def _pointing(section: str, kind: str, key: str, name: str) -> list[str]:
    """Returns the settings that name a model."""
    if section == "serve" and kind in SERVED:
        return ["serve.model=null", f"serve.{SERVED[kind]}={name}"]
    return [f"{section}.{key}={name}"]
