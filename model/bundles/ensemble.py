"""Several translation bundles with one vocabulary as one model, whose network is the mean of theirs."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.errors import UserError
from dragoman.model.languages import same_pair
from dragoman.model.networks.ensemble import Ensemble
from dragoman.model.networks.network import TranslationNetwork


@dataclass(kw_only=True)
class EnsembleBundle(TranslationBundle):
    """An ensemble. It has no directory, so files about it go elsewhere; it decodes as its first member does."""

    members: tuple[TranslationBundle, ...]

    @cached_property
    def network(self) -> TranslationNetwork:
        """Returns all members' networks as one, in evaluation mode."""
        return Ensemble([member.network for member in self.members]).eval()

    def export_folder(self, _quantisation: object) -> None:
        """Returns None: an ensemble is decoded in PyTorch."""
        return

    def update_facts(self, _facts: object) -> None:
        """Raises TypeError: the facts are its members'."""
        raise TypeError(f"{self.directory}: an ensemble keeps no facts")


def load_ensemble(directories: Sequence[Path], key: str) -> EnsembleBundle:
    """Loads and checks the bundles in `directories`; `key` is the setting that names them."""
    if len(directories) < 2:
        raise UserError(f"{key}: an ensemble has two members at least, not {len(directories)}")
    members = tuple(load_bundle(directory) for directory in directories)
    first = members[0]
    for other in members[1:]:
        difference = _difference(first, other)
        if difference:
            raise UserError(
                f"{key}: {first.directory} and {other.directory} {difference}. Members of an ensemble are trained on "
                f"the same shards, or on shards of the same tokenizer"
            )
    runs = [dict(member.facts.get("run") or {}) for member in members]
    return EnsembleBundle(
        directory=Path(" + ".join(str(member.directory) for member in members)),
        model=first.model,
        pair=first.pair,
        facts={
            "normalisation": first.normalisation,
            "manifest_hash": joined(member.facts.get("manifest_hash") for member in members),
            "run": {name: joined(run.get(name) for run in runs) for name in ("name", "id")},
        },
        digest=hashlib.sha256("\n".join(member.digest for member in members).encode()).hexdigest(),
        architecture=first.architecture,
        source_vocabulary=first.source_vocabulary,
        target_vocabulary=first.target_vocabulary,
        source_positions=min(member.source_positions for member in members),
        target_positions=min(member.target_positions for member in members),
        tokenizers=first.tokenizers,
        decode=first.decode,
        members=members,
    )


def _difference(first: TranslationBundle, other: TranslationBundle) -> str:
    """Returns why the two cannot be decoded together; empty if they can."""
    if not same_pair(first.pair, other.pair):
        return f"translate {first.pair} and {other.pair}"
    if first.tokenizers.describe() != other.tokenizers.describe():
        return "have different tokenizers"
    if first.normalisation != other.normalisation:
        return f"read texts in {first.normalisation} and {other.normalisation}"
    return ""


def joined(values: Iterable[Any]) -> str:
    """Returns the distinct values in their order, joined by +."""
    return "+".join(dict.fromkeys(str(value) for value in values if value))
