"""What the shards say of corpus and tokenizer, in the place of what the configuration says where nobody chose it.

A training reads shards, not a corpus: the sections `corpus`, `tokenizer` and `shards` change nothing in it. So they are
taken from the manifest, for the run's record and for the names that are made of them, and a key that was given on the
command line or by its experiment, and says otherwise, is refused. A file that was chosen (`corpus=multi30k`) claims
its name and kind, not each of its values. A corpus file that was given must be one that the shards were made of: one of
the same name, and where it lies here of the same size, or of another name and the same content.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from conf import groups
from model.addresses import mask_address
from model.errors import UserError
from model.files import file_sha256
from model.schema import build, flat
from model.shards.manifest import Manifest, has_manifest, read_manifest
from model.storage.mirror import local_folder
from pipelines.corpus.identity import UNSAID, look_up
from pipelines.corpus.settings import CorpusConfig
from pipelines.corpus.sources import SPLITS, Split, fill_pattern, names_of

SECTIONS = ("corpus", "tokenizer", "shards")
KINDS = {"corpus": "corpus.format", "tokenizer": "tokenizer.type"}  # what the choice of a file is about
GIVEN = "tokenizer.same_as"  # said by name, and by content in the manifest
OF_SAMPLES = re.compile(r"\w+-\d+-(.+)\.(?:jsonl|txt)")  # the name that `samples.as_lines` makes of a tar's


def as_sharded(values: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Dotted key -> value of all that the shards of `paths.shards` know better; nothing where there are none yet.

    Args:
        values: the composed configuration.
        words: the overrides of the command line.

    Raises:
        UserError: a key that was given says something else than the shards; names it with both values.
    """
    directory = local_folder(values["paths"]["shards"], values["paths"]["cache"])
    if not has_manifest(directory):
        return {}
    manifest, chosen = read_manifest(directory), find_given_keys(words, values)
    found: dict[str, Any] = {"paths.shards": values["paths"]["shards"]}  # its default is made of the others
    if "pair" not in chosen:
        found["pair"] = "-".join(manifest.languages)
    for key, ours in flat({section: values[section] for section in SECTIONS}):
        theirs = look_up(manifest.config, key)
        if ours == {} or theirs in (UNSAID, ours) or (key.startswith("corpus.fields.") and of_tars(manifest)):
            continue
        if key != GIVEN and any(key == one or key.startswith(f"{one}.") for one in chosen):
            raise UserError(
                f"{key}={ours}: the shards in {directory} were made with {theirs}. Leave {key} out to train on them, "
                f"or make others: dragoman shard {key}={ours} paths.shards=FOLDER"
            )
        found[key] = theirs
    for split in SPLITS:
        for side, named in values["corpus"][split].items():
            if f"corpus.{split}.{side}" in chosen:
                for name in names_of(named):
                    check_given_file(name, f"corpus.{split}.{side}", corpus_of(values, manifest), manifest, split)
    return found


def of_tars(manifest: Manifest) -> bool:
    """Whether the shards were made of other tools' tars, by way of lines: sizes and fields are those of the lines."""
    return bool(manifest.config["corpus"].get("format") == "webdataset")


def corpus_of(values: Mapping[str, Any], manifest: Manifest) -> CorpusConfig:
    """The section `corpus`, in the format that the shards were made from."""
    kept = manifest.config["corpus"].get("format", values["corpus"]["format"])
    return build(CorpusConfig, {**values["corpus"], "format": kept}, "corpus")


def check_given_file(name: str, key: str, corpus: CorpusConfig, manifest: Manifest, split: Split) -> None:
    """Refuse a corpus file that is none of those that the shards' `split` was made of.

    Raises:
        UserError: there is no such file among them; names the key and them.
    """
    made_of = [source for source in manifest.sources if source.get("split", split) == split]
    file = Path(fill_pattern(corpus, "-".join(manifest.languages), name))
    path = Path(corpus.root or "").expanduser() / file.expanduser()
    size = path.stat().st_size if path.is_file() and not of_tars(manifest) else None
    names: dict[str, None] = {}
    for source in made_of:
        own = OF_SAMPLES.sub(r"\1", source["name"]) if of_tars(manifest) else source["name"]
        same_size = size in (None, source["bytes"])
        if same_size and fnmatchcase(own, path.name):
            return
        if size is not None and same_size and source["sha256"] == file_sha256(path):
            return
        names[own] = None
    shown = mask_address(name) if "://" in name else name
    raise UserError(
        f"{key}={shown}: the {split} split of the shards was made of {', '.join(names) or 'no file of its own'}"
        f"{', of another size than yours' if path.name in names else ''}. Leave {key} out to train on them, or make "
        f"others: dragoman shard {key}={shown} paths.shards=FOLDER"
    )


def find_given_keys(words: Sequence[str], values: Mapping[str, Any]) -> set[str]:
    """The dotted keys that somebody chose: on the command line, or in the experiment that it names."""
    keys: set[str] = set()
    for word in words:
        name, assigned, value = word.lstrip("+").partition("=")
        if not assigned or word.startswith("-"):
            continue
        if name == "experiment":
            for experiment in value.split(","):
                keys |= _of_experiment(experiment, values)
        else:
            keys |= _keys_of(name, values)
    return keys


def _of_experiment(name: str, values: Mapping[str, Any]) -> set[str]:
    if name not in groups.choices("experiment"):
        return set()
    content = groups.content(f"experiment/{name}")
    defaults: Iterable[Any] = content.pop("defaults", ())
    chosen = {group.removeprefix("override ").lstrip("/") for one in defaults if isinstance(one, dict) for group in one}
    return {key for key, _ in flat(content)}.union(*(_keys_of(group, values) for group in chosen))


def _keys_of(key: str, values: Mapping[str, Any]) -> set[str]:
    """What giving `key` says: itself; of a group's file its kind, and its name where that is not everybody's."""
    if key not in KINDS:
        return {key}
    named = values[key]["name"] != CorpusConfig().name
    return {KINDS[key], f"{key}.name"} if named else {KINDS[key]}
