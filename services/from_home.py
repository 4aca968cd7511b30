"""A command that names no corpus, run or model takes the only one of the home.

`dragoman shard corpus=tsv ...` is followed by `dragoman train`, `promote` and `serve`, which need the same words again.
Where the home has one sharding or model, these are its words; where it has several, they are listed.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dragoman.conf import compose
from dragoman.conf.groups import sections
from dragoman.conf.kinds import kind_words
from dragoman.model.bundles.directory import read_facts
from dragoman.model.errors import UserError
from dragoman.model.runs.bundles import bundles
from dragoman.model.runs.paths import RELEASE

OF_SHARDS = ("train", "evaluate", "promote", "rollback", "compare", "unpack")
# verb, whose name is its section -> the kinds of model that it takes; none: every kind
OF_MODELS: dict[str, tuple[str, ...]] = {
    "translate": ("translation",),
    "rerank": ("translation",),
    "serve": ("translation",),
    "score": ("translation", "language"),
    "generate": ("language",),
    "predict": ("labels", "language", "masked"),
    "embed": (),
}
SHARDING = (
    "corpus",
    "experiment",
    "pair",
    "paths",
    "tokenizer",
    "registry.name",
)  # how keys that say which shards begin
NAMING = (*SHARDING[:2], "name", *SHARDING[3:], "model")  # or which model
POINTING = (".bundle", ".model", ".models", ".vectors", "tracking_uri", ".uri", ".wait")  # ends of keys
OPTIONS = ("--multirun", "--json")
MOST = 8  # shardings or models to list
SHARD = "dragoman shard corpus=tsv pair=en-de corpus.train.file=PAIRS.tsv"


def with_home(verb: str, words: Sequence[str]) -> list[str]:
    """Returns the words, with those of `own_words` behind a text."""
    home = Path(os.environ.get("DRAGOMAN_HOME") or "artifacts")
    own = [] if compose.is_rehearsal() else own_words(verb, words, home)
    if own:
        print(f"dragoman {verb}: the only one in {home}: {shlex.join(own)}", file=sys.stderr)
    texts = _texts(words)
    return [*texts, *own, *words[len(texts) :]]


def own_words(
    verb: str, words: Sequence[str], home: Path, visible: Callable[[Path], bool] = lambda _: True
) -> list[str]:
    """Returns the words of the home's only shards or model, of those that are `visible`; empty if `words` name theirs.

    Raises UserError: the home has several, whose words are listed, or no shards.
    """
    if not is_open(verb, words):
        return []
    if verb == "shard":
        raise UserError(f"name a corpus: {SHARD}; corpus=everyday takes the built-in sentences")
    if verb in OF_MODELS:
        candidates = models(verb, home)
    else:
        candidates = [_without(own, words) for own in shardings(home / "shards", visible)]
        if not candidates:
            raise UserError(f"no shards in {home / 'shards'}; make some: {SHARD}")
    if len(candidates) > 1:
        texts = _texts(words)
        lines = [f"  dragoman {verb} {shlex.join([*texts, *own, *words[len(texts) :]])}" for own in candidates[:MOST]]
        what = "models" if verb in OF_MODELS else "shardings"
        raise UserError("\n".join([f"the home has {len(candidates)} {what}; say which:", *lines]))
    return candidates[0] if candidates else []  # of a home without models the verb itself says what to do


def is_open(verb: str, words: Sequence[str]) -> bool:
    """Returns True if the words of a command that reads shards or a model do not say which."""
    if verb not in ("shard", *OF_SHARDS, *OF_MODELS):
        return False
    settings = [word for word in words if verb not in OF_MODELS or _is_setting(word) or word.startswith("-")]
    if not all(map(_is_setting, settings)):  # its own mistake comes first
        return False
    keys = [_key(word) for word in settings if word not in OPTIONS]
    if verb == "shard":
        return not any(key.partition(".")[0] in SHARDING[:2] for key in keys)
    return not any(
        key.startswith(SHARDING) if verb in OF_SHARDS else key.startswith(NAMING) or key.endswith(POINTING)
        for key in keys
    )


def _texts(words: Sequence[str]) -> list[str]:
    """Returns the words before the first setting."""
    first = next((number for number, word in enumerate(words) if _is_setting(word)), len(words))
    return list(words[:first])


def _key(word: str) -> str:
    return word.lstrip("+~").partition("=")[0]


def _is_setting(word: str) -> bool:
    """Returns False for a text, or a word that will be refused."""
    return word in OPTIONS or _key(word).partition(".")[0] in (*sections(), "experiment")


def _without(own: list[str], words: Sequence[str]) -> list[str]:
    """Returns a sharding's words without the usual network and registry, where the user chose another."""
    keys = {*map(_key, words)}
    chosen = ("model=", "registry=language", "registry=vectors") if keys & {"model", "models"} else ()
    begun = ("model=gpt_tiny",) if "train.init_from" in keys else ()  # it says which network
    return [word for word in own if not word.startswith((*chosen, *begun)) and _key(word) not in keys]


def shardings(folder: Path, visible: Callable[[Path], bool]) -> Iterator[list[str]]:
    """Yields the words of each finished sharding in a folder, by name, and of those that owners' jobs made below it."""
    manifests = [*sorted(folder.glob("*/manifest.json")), *sorted(folder.glob("*/*/manifest.json"))]
    for path in filter(lambda path: visible(path.parent), manifests):
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            yield words_of(manifest, path.parent, folder)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # damaged: who names it is told


def words_of(manifest: dict[str, Any], folder: Path, root: Path) -> list[str]:
    """Returns the settings that lead to these shards below `root`, and to the kind of model that is trained on them."""
    corpus, tokenizer = manifest["config"]["corpus"], manifest["config"]["tokenizer"]
    form, pair = str(corpus["format"]), str(manifest["config"]["pair"])
    words = [f"corpus={form}"]
    if corpus["name"] != form:
        words.append(f"corpus.name={corpus['name']}")
    words += [f"pair={pair}", f"tokenizer={tokenizer['type']}"]
    words += kind_words(form, corpus.get("labels", "classes"), len(pair.split("-")), tokenizer["type"])
    if folder.parent != root:
        words.append(f"paths.owner={folder.parent.name}")
    if folder.name != f"{corpus['name']}-{pair}-{tokenizer['type']}":
        words.append(f"paths.shards={folder}")
    return words


def models(verb: str, home: Path) -> list[list[str]]:
    """Returns the words of each champion among the home's models that the verb takes; without any those of each run."""
    registered: dict[str, str] = {}  # run -> name in the registry
    runs = home / "runs"
    for bundle in [path for folder in (runs, *sorted(runs.glob("*/"))) for path in sorted(bundles(folder))]:
        try:
            facts, release = read_facts(bundle), json.loads((bundle.parent / RELEASE).read_text(encoding="utf-8"))
        except (OSError, ValueError, UserError):
            continue  # damaged or not released: who names it is told
        if not OF_MODELS[verb] or facts.get("kind", "translation") in OF_MODELS[verb]:
            registered[str(bundle.parent.relative_to(runs))] = str(release.get("model") or "")
    names = sorted({*registered.values()} & champions(home)) if registered else []
    if names:
        return [[f"{verb}.model=models:/{name}@champion"] for name in names]
    return [[f"{verb}.bundle={run}"] for run in registered]


def champions(home: Path) -> set[str]:
    """Returns the names of the registered models that have a champion."""
    remote, own = os.environ.get("MLFLOW_TRACKING_URI"), home / "mlflow" / "mlflow.db"
    if not remote and not own.is_file():
        return set()
    from dragoman.services.models.registry import Registry  # loads MLflow

    registry = Registry(remote or f"sqlite:///{own}", home)
    with registry.asking():
        return {name for (name, _), aliases in registry.aliases().items() if "champion" in aliases}
