"""A command that names no corpus, run or model takes the only one of the home.

`dragoman shard corpus=tsv ...` is followed by `dragoman train`, `promote` and `serve`, which need the same words again.
Where the home has one sharding, champion or run, these are its words; where it has several, they are listed; where it
has none, the message says how to make one.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.conf import compose
from dragoman.conf.groups import sections
from dragoman.conf.kinds import kind_words
from dragoman.model.bundles.directory import read_facts
from dragoman.model.errors import UserError
from dragoman.model.runs.bundles import bundles
from dragoman.model.runs.paths import RELEASE

OF_SHARDS = ("train", "evaluate", "promote", "rollback", "compare", "unpack")
# verb -> its section, and the kinds of model that it takes; none: every kind
OF_MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "translate": ("translate", ("translation",)), "rerank": ("rerank", ("translation",)),
    "score": ("score", ("translation", "language")), "generate": ("generate", ("language",)),
    "predict": ("predict", ("classes", "numbers", "tags", "language", "masked")), "serve": ("serve", ()),
    "embed": ("embed", ()),
}  # fmt: skip
SERVED = {"classes": "labels", "tags": "labels", "numbers": "labels", "vectors": "vectors", "language": "guesser",
          "masked": "guesser"}  # kind -> key of serve  # fmt: skip
SHARDING = ("corpus", "experiment", "pair", "paths", "tokenizer", "registry.")  # how keys that say which shards begin
NAMING = (*SHARDING[:2], "name", *SHARDING[3:], "model")  # or which model
POINTING = (".bundle", ".model", ".models", ".ensemble", ".labels", ".vectors", ".encoder", ".guesser", "tracking_uri",
            ".uri", ".wait")  # ends of keys  # fmt: skip
OPTIONS = ("-m", "--multirun", "--json")
MOST = 8  # shardings, champions or runs to list
SHARD = "dragoman shard corpus=tsv pair=en-de corpus.train.file=PAIRS.tsv"
SHARD_LABELS = "dragoman shard corpus=labelled pair=en corpus.train.file=TEXTS.tsv"
BUILT_IN = "corpus=everyday takes the built-in sentences"


class Model(NamedTuple):
    """The model of a run of the home."""

    run: str
    kind: str  # of its bundle; of labels what its head gives
    registered: str = ""  # its name in the registry
    shards: str = ""


def with_home(verb: str, words: Sequence[str]) -> list[str]:
    """Returns the words, with those of `own_words` behind a text."""
    home = Path(os.environ.get("DRAGOMAN_HOME") or "artifacts")
    own = [] if compose.is_rehearsal() else own_words(verb, words, home)
    if own:
        print(f"dragoman {verb}: the only one in {home}: {shlex.join(own)}", file=sys.stderr)
    return [*(texts := _texts(words)), *own, *words[len(texts) :]]


def own_words(
    verb: str, words: Sequence[str], home: Path, visible: Callable[[Path], bool] = lambda _: True
) -> list[str]:
    """Returns the words of the home's only shards or model, of those that are `visible`; empty if `words` name theirs.

    Raises UserError: the home has several, whose words are listed, or none.
    """
    if not is_open(verb, words):
        return []
    if verb == "shard":
        raise UserError(f"name a corpus: {SHARD}; {BUILT_IN}")
    home_words = _models(verb, home) if verb in OF_MODELS else _shardings(verb, words, home, visible)
    if len(home_words) > 1:
        first = len(texts := _texts(words))
        lines = [f"  dragoman {verb} {shlex.join([*texts, *own, *words[first:]])}" for own in home_words[:MOST]]
        what = "models" if verb in OF_MODELS else "shardings" if home_words[0][-1][:5] != "name=" else "runs"
        raise UserError("\n".join([f"the home has {len(home_words)} {what}; say which:", *lines]))
    return home_words[0] if home_words else []


def is_open(verb: str, words: Sequence[str]) -> bool:
    """Returns True if the words of a command that reads shards or a model do not say which."""
    if verb not in ("shard", *OF_SHARDS, *OF_MODELS):
        return False
    settings = [word for word in words if verb not in OF_MODELS or _is_setting(word) or word.startswith("-")]
    if not all(map(_is_setting, settings)):  # its own mistake comes first
        return False
    if verb == "shard":
        return not any(_key(word).partition(".")[0] in SHARDING[:2] for word in words)
    return not any(_says_which(word, verb) for word in settings)


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
    key = _key(word)
    return key.startswith(SHARDING) if verb in OF_SHARDS else key.startswith(NAMING) or key.endswith(POINTING)


def _shardings(verb: str, words: Sequence[str], home: Path, visible: Callable[[Path], bool]) -> list[list[str]]:
    """Returns the words of each finished sharding of the home; for an evaluation those of each run on the only one."""
    folders = [_beside(own, words) for own in shardings(home / "shards", visible)]
    if not folders:
        raise UserError(f"no shards in {home / 'shards'}; make some: {SHARD}; {BUILT_IN}")
    if verb == "evaluate" and len(folders) == 1 and not {*map(_key, words)} & {"name", "evaluate.bundle"}:
        runs = [model.run for model in models(home / "runs", visible) if model.shards]
        return [[*folders[0], f"name={run}"] for run in runs] or folders
    return folders


def _beside(own: list[str], words: Sequence[str]) -> list[str]:
    """Returns a sharding's words without the usual network and registry, where the user chose another."""
    keys = {*map(_key, words)}
    chosen = ("model=", "registry=language", "registry=vectors") if keys & {"model", "models"} else ()
    begun = ("model=gpt_tiny",) if "train.init_from" in keys else ()  # it says which network
    return [word for word in own if not word.startswith((*chosen, *begun)) and _key(word) not in keys]


def shardings(folder: Path, visible: Callable[[Path], bool]) -> Iterator[list[str]]:
    """Yields the words of each finished sharding in a folder, by name."""
    for path in filter(lambda path: visible(path.parent), sorted(folder.glob("*/manifest.json"))):
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


def models(runs: Path, visible: Callable[[Path], bool] = lambda _: True) -> Iterator[Model]:
    """Yields the model of each run that has one, by name."""
    for bundle in filter(lambda bundle: visible(bundle.parent), sorted(bundles(runs))):
        try:
            facts, release = read_facts(bundle), json.loads((bundle.parent / RELEASE).read_text(encoding="utf-8"))
            registered, shards = str(release.get("model") or ""), str(release.get("shards") or "")
            kind = facts["model"]["head"] if facts.get("kind") == "labels" else facts.get("kind", "translation")
            yield Model(bundle.parent.name, str(kind), registered, shards)
        except (OSError, ValueError, KeyError, TypeError, UserError):
            continue  # damaged or not released: who names it is told


def _models(verb: str, home: Path) -> list[list[str]]:
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
            f"{SHARD_LABELS if section == 'predict' else SHARD}, then dragoman train"
        )
    return [_pointing(section, model.kind, "bundle", model.run) for model in fitting]


def _pointing(section: str, kind: str, key: str, name: str) -> list[str]:
    """Returns the settings that name a model."""
    if section == "serve" and kind in SERVED:
        return ["serve.model=null", f"serve.{SERVED[kind]}={name}"]
    return [f"{section}.{key}={name}"]
