"""`corpus.clean.scores`: how well two translation models, one of each direction, explain each training pair.

    score = exp(-(|H(y|x) - H(x|y)| + (H(y|x) + H(x|y)) / 2)),  H: nats of a token, with the end of sentence

(Junczys-Dowmunt 2018, dual conditional cross-entropy, equations 1 and 2). It is 1 for a pair that both models are sure
of, and near 0 where either is surprised or they disagree.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dragoman.model.bundles.directory import CONFIG, bundle_kind, read_facts
from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.languages import same_pair, split_pair
from dragoman.pipelines.corpus.clean.block import load_block, load_result, save_result
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.settings import ClusterConfig

if TYPE_CHECKING:  # torch is loaded where pairs are scored
    from dragoman.model.inference.scoring import Scorer

KEY = "corpus.clean.scores"
FOLDER = "scores"  # of the scratch folder
AT_ONCE = 4096  # pairs that are sorted by length together

Scores = npt.NDArray[np.float32]


@dataclass(frozen=True)
class GivenScorers:
    """The bundles of both directions, and the digests that identify them."""

    forward: Path
    backward: Path
    digests: tuple[str, str]


def find_scorers(
    named: Sequence[str], pairs: Sequence[str], bundle_of: Callable[[str, str], Path]
) -> GivenScorers | None:
    """Returns the models that `corpus.clean.scores` names; None if it names none.

    Args:
        pairs: the languages of the corpus, or of each part of a mix.
        bundle_of: returns the directory of the bundle that a setting names, given the name and the setting.

    Raises UserError: there is no such bundle, or it does not translate these languages in this direction.
    """
    if not named:
        return None
    for other in pairs:
        if not same_pair(other, pairs[0]):
            raise UserError(f"{KEY}: one pair of models scores one pair of languages, not {pairs[0]} and {other}")
    folders, digests = [], []
    for name, languages in zip(named, (split_pair(pairs[0]), split_pair(pairs[0])[::-1]), strict=True):
        folder = bundle_of(name, KEY)
        kind, pair = bundle_kind(folder), str(read_facts(folder).get("pair"))
        if kind != "translation" or not same_pair(pair, "-".join(languages)):
            raise UserError(
                f"{KEY}: {name} is a {kind} model of {pair}; give [FORWARD, BACKWARD], models that translate "
                f"{pairs[0]} and {'-'.join(split_pair(pairs[0])[::-1])}"
            )
        folders.append(folder)
        digests.append(file_sha256(folder / CONFIG))  # covers every other file
    return GivenScorers(folders[0], folders[1], (digests[0], digests[1]))


def score_blocks(
    blocks: Sequence[Block], clean: Path, folder: Path, scorers: GivenScorers, cluster: ClusterConfig
) -> None:
    """Writes the scores of the blocks' pairs into `folder`, once."""
    folder.mkdir(exist_ok=True)
    from dragoman.pipelines.cluster.map import all_of  # it loads torch

    all_of("scoring pairs", partial(score_block, clean, folder, scorers), blocks, cluster)


def score_block(clean: Path, folder: Path, scorers: GivenScorers, block: Block) -> int:
    """Writes the scores of a block's pairs, once; returns the block's number."""

    def score() -> Scores:
        source, target = load_block(clean, block.number).texts()
        return dual_scores(*_open(scorers.forward, scorers.backward), source, target)

    return save_result(folder, block.number, score)


def dual_scores(forward: "Scorer", backward: "Scorer", source: Sequence[str], target: Sequence[str]) -> Scores:
    """Returns (n,) scores of pairs. A side beyond a model's positions is scored by its beginning."""
    line_scores = np.empty(len(source), np.float32)
    for first in range(0, len(source), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        ahead = forward.score(source[part], target[part], too_long="truncate")
        back = backward.score(target[part], source[part], too_long="truncate")
        nats = -np.array([[score.mean for score in scores] for scores in (ahead, back)])  # (2, n)
        line_scores[part] = np.exp(-(abs(nats[0] - nats[1]) + nats.mean(0)))
    return line_scores


def load_scores(folder: Path, number: int, pairs: int) -> Scores:
    """Returns (n,) scores of a block's pairs; 0 if it was not scored."""
    return load_result(folder, number, pairs, np.float32)


@lru_cache(maxsize=1)
def _open(forward: Path, backward: Path) -> "tuple[Scorer, Scorer]":
    from dragoman.model.bundles.translation import load_bundle
    from dragoman.model.inference.scoring import open_scorer

    return open_scorer(load_bundle(forward)), open_scorer(load_bundle(backward))
