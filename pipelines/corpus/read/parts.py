"""The corpora of a mix: `corpus.parts`, each with its files, its languages and its tags.

A mix is sharded as one corpus: one plan drops duplicates and leaks across its parts, one tokenizer is trained on all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from dragoman.model.errors import UserError, unknown
from dragoman.model.languages import MANY, same_language, split_pair
from dragoman.model.names import check_name
from dragoman.model.text.tags import check_tag
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.pipelines.corpus.read.file_names import SPLITS
from dragoman.pipelines.corpus.read.remote_files import with_local_files
from dragoman.pipelines.corpus.read.sources import Source, sources_of
from dragoman.pipelines.corpus.settings import CorpusConfig, CorpusPart, SplitFiles

FORMATS = ("moses", "tsv", "jsonl")
OWN = ("name", "pair", "tags")  # settings of a part that are no settings of a corpus


@dataclass(frozen=True)
class Part:
    """One corpus of a mix; `corpus` has its files."""

    name: str
    pair: str
    tags: tuple[str, ...]
    corpus: CorpusConfig

    def facts(self) -> dict[str, Any]:
        """Returns what identifies it in a manifest, besides its files."""
        return {"name": self.name, "pair": self.pair, "tags": list(self.tags)}


def parts_of(corpus: CorpusConfig, pair: str, tokenizer: TokenizerConfig) -> tuple[Part, ...]:
    """Returns the parts of the mix; empty for a corpus that is none."""
    parts = tuple(_part(corpus, part, pair, f"corpus.parts[{number}]") for number, part in enumerate(corpus.parts))
    names = [part.name for part in parts]
    for name in names:
        check_name("corpus.parts.name", name)
        if names.count(name) > 1:
            raise UserError(f"corpus.parts: two are named {name}")
    _check_languages(parts, pair)
    tags = all_tags(parts)
    if tags and tokenizer.type not in ("bpe", "unigram"):
        raise UserError(
            f"tokenizer={tokenizer.name}: has no pieces for tags ({', '.join(tags)}); choose bpe or unigram"
        )
    return parts


def all_tags(parts: Sequence[Part]) -> list[str]:
    """Returns every tag once, in order."""
    return list(dict.fromkeys(tag for part in parts for tag in part.tags))


def sources_of_parts(parts: Sequence[Part], cache: str) -> list[Source]:
    """Returns the files of all parts, in order; files at an address are fetched."""
    part_sources = []
    for part in parts:
        try:
            sources = sources_of(with_local_files(part.corpus, part.pair, cache), part.pair)
        except UserError as problem:
            raise UserError(f"corpus.parts, {part.name}: {problem}") from None
        part_sources += [replace(source, name=f"{part.name}.{source.name}", part=part.name) for source in sources]
    return part_sources


def _part(corpus: CorpusConfig, part: CorpusPart, pair: str, key: str) -> Part:
    values = {
        field.name: value
        for field in fields(part)
        if field.name not in OWN and (value := getattr(part, field.name)) is not None
    }
    if part.train is not None:
        values |= {split: getattr(part, split) or SplitFiles() for split in SPLITS}
    own = replace(corpus, **values, parts=[])
    if own.format not in FORMATS:
        raise unknown(f"{key}.format", own.format, FORMATS)
    for tag in part.tags:
        check_tag(tag, f"{key}.tags")
    return Part(part.name, part.pair or pair, tuple(part.tags), own)


def _check_languages(parts: Sequence[Part], pair: str) -> None:
    """Refuses parts whose languages are not those of the mix, and target languages that no tag tells apart."""
    for side, whole in enumerate(split_pair(pair) if parts else ()):
        for part in parts:
            if whole != MANY and not same_language(split_pair(part.pair)[side], whole):
                choices = [f"{MANY}-{split_pair(pair)[1]}", f"{split_pair(pair)[0]}-{MANY}"]
                raise UserError(
                    f"corpus.parts, {part.name}: pair={part.pair} in a mix of pair={pair}. A mix of several languages "
                    f"on one side has pair={choices[side]}; on both sides there is none"
                )
    if len({split_pair(part.pair)[1] for part in parts}) < 2:
        return
    target_of: dict[str, str] = {}
    for part in parts:
        target = split_pair(part.pair)[1]
        if not part.tags:
            raise UserError(
                f"corpus.parts, {part.name}: needs a tag, for the mix has several target languages and the first tag "
                f"chooses one: tags: [<2{target}>]"
            )
        if target_of.setdefault(part.tags[0], target) != target:
            raise UserError(
                f"corpus.parts, {part.name}: the first tag {part.tags[0]} is that of {target_of[part.tags[0]]}, "
                f"and the target language is {target}"
            )
