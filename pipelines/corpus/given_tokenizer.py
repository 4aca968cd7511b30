"""`tokenizer.same_as`: the tokenizer of other shards or of a bundle, in the place of one that the corpus trains.

Two networks can only be decoded as one, or one begin with the other's weights, where both have the same vocabulary.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from model.bundles.directory import read_facts
from model.errors import UserError
from model.shards.manifest import has_manifest, read_manifest
from model.text.tokenizer import TokenizerConfig, TokenizerPair
from model.text.tokenizers import load_pair
from pipelines.config import Config
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


def find_tokenizer(config: Config) -> GivenTokenizer | None:
    """The tokenizer that the configuration names; None where it names none.

    Raises:
        UserError: nothing of that name, a tokenizer of another type, or one a language for other languages.
    """
    wanted = config.tokenizer.same_as
    if wanted is None:
        return None
    folder, record, languages = _look_up(config, wanted)
    pair, asked = load_pair(folder, record), config.tokenizer.type
    if pair.source.type != asked:
        raise UserError(f"tokenizer.type={asked}: that of {KEY}={wanted} is {pair.source.type}")
    if not pair.joint and languages != tuple(config.languages):
        raise UserError(
            f"{KEY}={wanted}: has a vocabulary for each of {'-'.join(languages)}, and pair={config.pair} is asked for. "
            f"Choices: shards or a bundle of this pair, or with a joint vocabulary"
        )
    content = "+".join(entry["sha256"] for entry in pair.describe()["files"])
    settings = replace(
        config.tokenizer, vocabulary=pair.source.vocabulary, joint=pair.joint, train_lines=0, same_as=content
    )
    return GivenTokenizer(pair, settings)


def _look_up(config: Config, wanted: str) -> tuple[Path, dict[str, object], tuple[str, ...]]:
    """(folder, record of the tokenizer, languages) of shards or of a bundle."""
    shards = config.paths.local(wanted)
    if has_manifest(shards):
        manifest = read_manifest(shards)
        return shards, manifest.tokenizer, tuple(manifest.languages)
    bundle = config.bundle_dir(wanted, KEY)
    facts = read_facts(bundle)
    return bundle, facts["tokenizer"], tuple(str(facts["pair"]).split("-"))
