"""`tokenizer.same_as`: the tokenizer of other shards or of a bundle, in the place of one that the corpus trains.

Two networks can only be decoded as one, or one begin with the other's weights, where both have the same vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from model.bundles.directory import read_facts
from model.errors import UserError
from model.languages import languages_of, same_pair
from model.shards.manifest import has_manifest, read_manifest
from model.text.tokenizer import TokenizerConfig, TokenizerPair
from model.text.tokenizers import load_pair
from pipelines.corpus.scratch import write_json

KEY = "tokenizer.same_as"


@dataclass(frozen=True)
class GivenTokenizer:
    """A tokenizer that is there before the corpus is read, and what the section `tokenizer` says of it."""

    pair: TokenizerPair
    settings: TokenizerConfig

    def place(self, directory: Path, scratch: Path) -> None:
        """Put it where a sharding that goes on finds the tokenizer it has made."""
        self.pair.save(directory)
        write_json(scratch / "tokenizer.json", self.pair.describe())


def find_tokenizer(
    settings: TokenizerConfig,
    wanted_pair: tuple[str, ...],
    folder_of: Callable[[str], Path],
    bundle_of: Callable[[str, str], Path],
) -> GivenTokenizer | None:
    """The tokenizer that the settings name; None where they name none.

    Args:
        wanted_pair: the languages of the corpus.
        folder_of: where a place of that name is on this machine.
        bundle_of: the directory of the bundle that a setting names, given the name and the setting.

    Raises:
        UserError: nothing of that name, a tokenizer of another type, or one a language for other languages.
    """
    wanted = settings.same_as
    if wanted is None:
        return None
    shards = folder_of(wanted)
    folder, record, languages = _of_shards(shards) if has_manifest(shards) else _of_bundle(bundle_of(wanted, KEY))
    pair, asked = load_pair(folder, record), settings.type
    if pair.source.type != asked:
        raise UserError(f"tokenizer.type={asked}: that of {KEY}={wanted} is {pair.source.type}")
    if not pair.joint and not same_pair("-".join(languages), "-".join(wanted_pair)):
        raise UserError(
            f"{KEY}={wanted}: has a vocabulary for each of {'-'.join(languages)}, and pair={'-'.join(wanted_pair)} is "
            f"asked for. Choices: shards or a bundle of this pair, or with a joint vocabulary"
        )
    content = "+".join(entry["sha256"] for entry in pair.describe()["files"])
    found = replace(settings, vocabulary=pair.source.vocabulary, joint=pair.joint, train_lines=0, same_as=content)
    return GivenTokenizer(pair, found)


Found = tuple[Path, dict[str, object], tuple[str, ...]]  # folder, record of the tokenizer, languages


def _of_shards(folder: Path) -> Found:
    manifest = read_manifest(folder)
    return folder, manifest.tokenizer, tuple(manifest.languages)


def _of_bundle(folder: Path) -> Found:
    facts = read_facts(folder)
    return folder, facts["tokenizer"], languages_of(str(facts["pair"]))
