"""A command that names no corpus or run takes the only shards of the home.

`dragoman shard corpus=tsv ...` is followed by `dragoman train` and `promote`, which need the same words again. Where
the home has one sharding, these are its words; where it has several, they are listed.
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
from dragoman.conf.kinds import LANGUAGE_MODEL, kind_words
from dragoman.model.errors import UserError

OF_SHARDS = ("train", "evaluate", "promote", "rollback", "compare", "unpack")
SHARDING = (
    "corpus",
    "experiment",
    "pair",
    "paths",
    "tokenizer",
    "registry.name",
)  # how keys that say which shards begin
OPTIONS = ("--json",)
MOST = 8  # shardings to list
SHARD = (
    "dragoman shard corpus=tsv corpus.name=mine pair=en-de corpus.train.file=PAIRS.tsv (of two files: corpus=moses ... "
    "corpus.train.source=TEXTS.en corpus.train.target=TEXTS.de)"
)


def with_home(verb: str, words: Sequence[str]) -> list[str]:
    """Returns the words, with those of `own_words` before them."""
    own = [] if compose.is_rehearsal() else own_words(verb, words, home())
    if own:
        print(f"dragoman {verb}: the only one in {home()}: {shlex.join(own)}", file=sys.stderr)
    return [*own, *words]


def home() -> Path:
    return Path(os.environ.get("DRAGOMAN_HOME") or "artifacts")


def own_words(
    verb: str, words: Sequence[str], home: Path, visible: Callable[[Path], bool] = lambda _: True
) -> list[str]:
    """Returns the words of the home's only shards, of those that are `visible`; empty if `words` name theirs."""
    if not is_open(verb, words):
        return []
    if verb == "shard":
        raise UserError(f"name a corpus: {SHARD}; corpus=everyday takes the built-in sentences")
    candidates = [_without(own, words) for own in shardings(home / "shards", visible)]
    if not candidates:
        raise UserError(f"no shards in {home / 'shards'}; make some: {SHARD}")
    if len(candidates) > 1:
        lines = [f"  dragoman {verb} {shlex.join([*own, *words])}" for own in candidates[:MOST]]
        raise UserError("\n".join([f"the home has {len(candidates)} shardings; say which:", *lines]))
    return candidates[0]


def is_open(verb: str, words: Sequence[str]) -> bool:
    """Returns True if the words of a command that reads shards do not say which."""
    if verb not in ("shard", *OF_SHARDS) or not all(map(_is_setting, words)):  # a mistake of its own comes first
        return False
    keys = [_key(word) for word in words if word not in OPTIONS]
    if verb == "shard":
        return not any(key.partition(".")[0] in SHARDING[:2] for key in keys)
    return not any(key.startswith(SHARDING) for key in keys)


def _key(word: str) -> str:
    return word.lstrip("+~").partition("=")[0]


def _is_setting(word: str) -> bool:
    """Returns False for a text, or a word that will be refused."""
    return word in OPTIONS or _key(word).partition(".")[0] in sections() | {"experiment"}


def _without(own: list[str], words: Sequence[str]) -> list[str]:
    """Returns a sharding's words without the usual network and registry, where the user chose another."""
    keys = {*map(_key, words)}
    chosen = ("model=", "registry=language", "registry=vectors") if keys & {"model", "models"} else ()
    begun = (LANGUAGE_MODEL,) if "train.init_from" in keys else ()  # it says which network
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
