"""`tokenizer.same_as`: uses the tokenizer of other shards or of a bundle instead of training one.

Two networks can be decoded together, or one start from the other's weights, only if they share a vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.model.bundles.directory import read_facts
from dragoman.model.errors import UserError
from dragoman.model.languages import languages_of, same_pair
from dragoman.model.shards.manifest import has_manifest, read_manifest
from dragoman.model.text.tokenizer import TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.corpus.read.scratch import write_json

KEY = "tokenizer.same_as"


@dataclass(frozen=True)
class GivenTokenizer:
    """An existing tokenizer, and the values of the section `tokenizer` that describe it."""

    pair: TokenizerPair
    settings: TokenizerConfig
    folder: Path  # of the shards or the bundle that it is from

    def store(self, directory: Path, scratch: Path) -> None:
        """Stores it where a resumed sharding finds its tokenizer."""
        self.pair.save(directory)
        write_json(scratch / "tokenizer.json", self.pair.describe())


def find_tokenizer(
    settings: TokenizerConfig,
    wanted_pair: tuple[str, ...],
    folder_of: Callable[[str], Path],
    bundle_of: Callable[[str, str], Path],
) -> GivenTokenizer | None:
    """Returns the tokenizer that the settings name; None if they name none.

    Args:
        wanted_pair: the languages of the corpus.
        folder_of: returns the local folder of a path or address.
        bundle_of: returns the directory of the bundle that a setting names, given the name and the setting.
    """
    same_as = settings.same_as
    if same_as is None:
        return None
    folder = folder_of(same_as)
    if has_manifest(folder):
        manifest = read_manifest(folder)
        record, languages = manifest.tokenizer, tuple(manifest.languages)
    else:
        folder = bundle_of(same_as, KEY)
        facts = read_facts(folder)
        record, languages = facts["tokenizer"], languages_of(str(facts["pair"]))
    pair, type_asked = load_pair(folder, record), settings.type
    if pair.target.type == "labels":  # the labels are not text: the source side alone is a tokenizer
        pair = TokenizerPair(pair.source, pair.source)
    if (theirs := pair.source.type) != type_asked:
        raise UserError(f"tokenizer.type={type_asked}: that of {KEY}={same_as} is {theirs}; add tokenizer={theirs}")
    if not pair.joint and not same_pair("-".join(languages), "-".join(wanted_pair)):
        raise UserError(
            f"{KEY}={same_as}: has a vocabulary for each of {'-'.join(languages)}, and pair={'-'.join(wanted_pair)} is "
            f"asked for. Choices: shards or a bundle of this pair, or with a joint vocabulary"
        )
    content = "+".join(entry["sha256"] for entry in pair.describe()["files"])
    given_settings = replace(
        settings,
        vocabulary=pair.source.vocabulary,
        joint=pair.joint,
        train_lines=0,
        same_as=content,
        sentinels=len(pair.source.sentinels),
    )
    return GivenTokenizer(pair, given_settings, folder)
