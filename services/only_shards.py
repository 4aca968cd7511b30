"""A command that names no corpus takes the only shards of the home.

`dragoman shard corpus=tsv ...` is followed by `dragoman train`, `promote` and `serve`, which need the same words again.
Where the home has one sharding, these are its words; where it has several, they are listed.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dragoman.conf.groups import sections
from dragoman.conf.kinds import kind_words
from dragoman.model.errors import UserError

TAKERS = ("train", "evaluate", "promote", "rollback", "compare", "serve", "translate", "score", "classify", "tag")
NAMING = ("corpus", "experiment", "pair", "name", "paths", "tokenizer", "registry", "model", "models")  # sections
POINTING = (".bundle", ".model", ".models", ".labels", ".vectors", ".encoder", ".tracking_uri")  # ends of keys
OPTIONS = ("-m", "--multirun", "--json")
MOST = 8  # shardings to list


def with_only_shards(verb: str, words: Sequence[str]) -> list[str]:
    """Returns the words, with those of the home's only shards in front if they name none themselves.

    Raises:
        UserError: the home has several; lists the words of each.
    """
    if verb not in TAKERS or any(map(_says_which, words)) or not all(map(_is_setting, words)):
        return list(words)
    found = list(shardings(Path(os.environ.get("DRAGOMAN_HOME") or "artifacts") / "shards"))
    if not found:
        return list(words)
    if any(word.startswith("train.init_from=") for word in words):  # it says which network
        found = [[word for word in own if word != "model=gpt_tiny"] for own in found]
    if len(found) > 1:
        lines = [f"  dragoman {verb} {shlex.join([*own, *words])}" for own in found[:MOST]]
        raise UserError("\n".join([f"the home has {len(found)} shardings; say which:", *lines]))
    (own,) = found
    print(f"dragoman {verb}: of the only shards here: {shlex.join(own)}", file=sys.stderr)
    return [*own, *words]


def _is_setting(word: str) -> bool:
    """Returns False for a word that will be refused: its own mistake is told first."""
    return word in OPTIONS or word.lstrip("+~").partition("=")[0].partition(".")[0] in sections()


def _says_which(word: str) -> bool:
    key, equals, _ = word.lstrip("+~").partition("=")
    if not equals:  # a run's folder, a file, an option of Hydra
        return word not in OPTIONS
    return key.partition(".")[0] in NAMING or key.endswith(POINTING)


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
