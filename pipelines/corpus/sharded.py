"""Takes corpus and tokenizer settings from the shards where the user did not choose them.

A training reads shards, not a corpus, so the sections `corpus`, `tokenizer` and `shards` have no effect on it. The
run's record and the names derived from it take them from the manifest. A key from the command line or its experiment
that contradicts the manifest is refused. A chosen group file (`corpus=multi30k`) claims its name and kind, not each
value. A given corpus file must be one of the shards' inputs: the same name (and size, if it exists here), or another
name with the same content.
"""

import itertools
import re
from collections.abc import Mapping, Sequence, Set
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dragoman.conf import again
from dragoman.model.addresses import mask_address
from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.schema import build, flat
from dragoman.model.shards.manifest import Manifest, has_manifest, read_manifest
from dragoman.model.storage.places import local_folder
from dragoman.pipelines.corpus.read.file_names import SPLITS, Split, fill_pattern, names_of
from dragoman.pipelines.corpus.read.identity import UNSAID, identity_of, value_of
from dragoman.pipelines.corpus.settings import CorpusConfig, CorpusPart
from dragoman.pipelines.corpus.sizes import fitting_run

SECTIONS = ("corpus", "tokenizer", "shards")
KINDS = {"corpus": "corpus.format", "tokenizer": "tokenizer.type"}  # the key that choosing a group file sets
SETTLE = {
    "experiment",
    "cluster",
    "corpus",
    "pair",
    "tokenizer",
    "shards",
    "paths",
    "seed",
}  # the sections that determine shards
HELD_OUT = 0.02  # of a text, if a network needs a held-out part
WITHOUT = {  # a held-out split -> what its absence means
    "valid": "word vectors can be trained on these shards, networks cannot",
    "test": "a network's last scores need evaluate.split=valid",
}
PARTS = "corpus.parts"  # with files here, without them in the manifest
GIVEN = ("tokenizer.same_as",)  # a name here, content hashes in the manifest
OF_LINES = re.compile(r"\w+-\d+-(.+)\.(?:jsonl|txt|text|labels)")  # of the lines of a tar or of a labelled file


def as_sharded(values: Mapping[str, Any], chosen: Set[str]) -> dict[str, Any]:
    """Returns dotted key -> value for everything that the shards of `paths.shards` define; empty if there are none.

    Args:
        values: the composed configuration.
        chosen: the keys that the user chose.
    """
    directory = local_folder(values["paths"]["shards"], values["paths"]["cache"])
    if not has_manifest(directory):
        return {}
    manifest, claimed = read_manifest(directory), claimed_keys(chosen, values)
    sharded_values: dict[str, Any] = {"paths.shards": values["paths"]["shards"]}  # its default depends on the others
    if "pair" not in claimed:
        sharded_values["pair"] = "-".join(manifest.languages)
    of_tars = value_of(manifest.config, "corpus.format") == "webdataset"  # their lines have fields of their own
    for key, ours in flat({section: values[section] for section in SECTIONS}):
        theirs = value_of(manifest.config, key)
        if ours == {} or theirs in (UNSAID, ours) or (of_tars and key.startswith("corpus.fields.")):
            continue
        if key == PARTS and ours:
            own = [build(CorpusPart, part, f"{key}[{number}]") for number, part in enumerate(ours)]
            if identity_of(own, sharded_values.get("pair", values["pair"])) == theirs:
                continue
        if key not in GIVEN and any(key == claim or key.startswith(f"{claim}.") for claim in claimed):
            file = training_file(manifest, values["corpus"]["train"].get("file"))
            raise UserError(
                f"{key}={ours}: the shards in {directory} were made with {theirs}. Leave {key} out to train on them, "
                f"or make others: {shard_command(beside=values['paths']['shards'], file=file)}"
            )
        sharded_values[key] = theirs
    for split in SPLITS:
        for side, named in values["corpus"][split].items():
            if f"corpus.{split}.{side}" in claimed:
                for name in names_of(named):
                    corpus = corpus_of(values, manifest)
                    check_given_file(name, f"corpus.{split}.{side}", corpus, manifest, split, values["paths"]["shards"])
    return sharded_values


def shard_command(*changes: str, beside: str | None = None, file: Sequence[str] = ()) -> str:
    """Returns the command that makes the shards of the running command line, with `changes`.

    With `beside` they are made in a folder of that name next to the current one, from `file` unless the line says
    from which.
    """
    if beside is not None:
        number = next(number for number in itertools.count(2) if not Path(f"{beside}-{number}").exists())
        changes = (*changes, f"paths.shards={beside}-{number}")
    return again.command("shard", *changes, otherwise=file, keep=lambda key: key.partition(".")[0] in SETTLE)


def training_file(manifest: Manifest, file: str | list[str] | None) -> list[str]:
    """Returns the settings for the only file that `manifest` was made from, if `file` names none.

    A manifest stores a file's name without its folder.
    """
    names = {source["name"] for source in manifest.sources if source.get("split") == "train"}
    form = manifest.config["corpus"].get("format")
    if file or len(names) != 1 or form not in ("tsv", "jsonl", "text"):
        return []
    return [f"corpus={form}", f"corpus.train.file={names.pop()}"]


def cutting(manifest: Manifest, run: int) -> list[str]:
    """Returns the settings that hold out texts of `manifest`'s data, for a cut of `run` records in a row."""
    fitting = fitting_run(manifest.splits["train"].records, HELD_OUT)
    cut = [f"corpus.cut.valid={HELD_OUT}", f"corpus.cut.test={HELD_OUT}"]
    return [*cut, f"corpus.cut.run={fitting}"] if fitting < run else cut


def missing(manifest: Manifest, split: str) -> str:
    """Returns what the absence of a held-out split means, and how to get one."""
    two_files = manifest.config.get("corpus", {}).get("format") == "moses"
    files = f"corpus.{split}.source and .target" if two_files else f"corpus.{split}.file"
    return f"no {split} split: {WITHOUT[split]}; {files}, or corpus.cut.{split}=0.02, gives one"


def corpus_of(values: Mapping[str, Any], manifest: Manifest) -> CorpusConfig:
    """Returns the section `corpus` in the format that the shards were made from."""
    kept = manifest.config["corpus"].get("format", values["corpus"]["format"])
    return build(CorpusConfig, {**values["corpus"], "format": kept}, "corpus")


def check_given_file(
    name: str, key: str, corpus: CorpusConfig, manifest: Manifest, split: Split, beside: str | None = None
) -> None:
    """Refuses a corpus file that is not among the inputs of the shards' `split`, which are in `beside`."""
    made_of = [source for source in manifest.sources if source.get("split", split) == split]
    file = Path(fill_pattern(corpus, "-".join(manifest.languages), name))
    path = Path(corpus.root or "").expanduser() / file.expanduser()
    by_lines = manifest.config["corpus"].get("format") in ("webdataset", "labelled")  # sizes are those of the lines
    size = path.stat().st_size if path.is_file() and not by_lines else None
    names: dict[str, None] = {}
    for source in made_of:
        own = OF_LINES.sub(r"\1", source["name"]) if by_lines else source["name"]
        same_size = size in (None, source["bytes"])
        if same_size and fnmatchcase(own, path.name):
            return
        if size is not None and same_size and source["sha256"] == file_sha256(path):
            return
        names[own] = None
    masked = mask_address(name) if "://" in name else name
    raise UserError(
        f"{key}={masked}: the {split} split of the shards was made of {', '.join(names) or 'no file of its own'}"
        f"{', of another size than yours' if path.name in names else ''}. Leave {key} out to train on them, or make "
        f"others: {shard_command(beside=beside)}"
    )


def claimed_keys(chosen: Set[str], values: Mapping[str, Any]) -> set[str]:
    """Returns the chosen keys; a chosen file of a group claims its kind, and its name if it is not the default."""
    keys = {*chosen} - KINDS.keys()
    for group in KINDS.keys() & chosen:
        keys.add(KINDS[group])
        if values[group]["name"] != CorpusConfig().name:
            keys.add(f"{group}.name")
    return keys
