"""`corpus.clean.scores`: one file of scores, or two that `dragoman score` wrote in both directions, a line per pair."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from model.errors import UserError
from model.files import atomic_open
from model.inputs.lines import View, open_lines
from model.plural import plural
from pipelines.corpus.read.staging import Block
from pipelines.corpus.settings import CleanConfig

Scores = npt.NDArray[np.float32]


def dual(forth: npt.NDArray[np.float64], back: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns (n,) in 0..1 from the mean log-probabilities per token of two models, one per direction.

    exp of minus (the difference of the cross-entropies, and their mean): pairs that both models find likely, and alike
    (Junczys-Dowmunt 2018, equations 1 and 2).
    """
    score: npt.NDArray[np.float64] = np.exp((forth + back) / 2 - abs(forth - back))
    return score


def stage_scores(files: Sequence[Path], blocks: Sequence[Block], folder: Path) -> Path | None:
    """Writes the scores of the training lines, in the corpus' order; returns the file, or None without `files`.

    Raises:
        UserError: a file with another number of lines than the training files have, or a line that is no number. An
            empty line is a pair without a score, which is minus infinity.
    """
    if not files:
        return None
    path = folder / "scores.npy"
    if not path.exists():
        lines = sum(block.lines for block in blocks if block.source.split == "train")
        sides = [_read(file, lines) for file in files]
        with atomic_open(path, durable=False) as out:
            np.save(out, (sides[0] if len(sides) == 1 else dual(*sides)).astype(np.float32))
    return path


def read_scores(path: Path, first: int, lines: int) -> Scores:
    """Returns the scores of `lines` training lines from `first`."""
    scores: Scores = np.load(path, mmap_mode="r", allow_pickle=False)[first : first + lines]
    return scores


def score_files(config: CleanConfig, root: str | None) -> list[Path]:
    """Returns the paths of `corpus.clean.scores`, relative to `corpus.root` if that is set.

    Raises:
        UserError: more than two files, one that is missing, or a limit without scores.
    """
    files = [Path(root or "").expanduser() / Path(file).expanduser() for file in config.scores]
    if len(files) > 2:
        raise UserError(f"corpus.clean.scores: {len(files)} files; give one, or two of both directions")
    for file in files:
        if not file.is_file():
            raise UserError(f"corpus.clean.scores: {file}: no such file; `dragoman score` writes such files")
    if not files and config.min_score is not None:
        raise UserError(f"corpus.clean.min_score={config.min_score}: needs corpus.clean.scores")
    if not files and config.best_share < 1:
        raise UserError(f"corpus.clean.best_share={config.best_share}: needs corpus.clean.scores")
    return files


def _read(path: Path, lines: int) -> npt.NDArray[np.float64]:
    with open_lines(path, View()) as file:
        texts = file.read().decode("ascii", "replace").split("\n")
    if texts and not texts[-1]:
        texts.pop()
    if len(texts) != lines:
        raise UserError(
            f"corpus.clean.scores: {path} has {plural(len(texts), 'line')}, the training files have {lines:,}"
        )
    scores = np.full(lines, -np.inf)
    for place, text in enumerate(texts):
        if text.strip():
            try:
                scores[place] = float(text)
            except ValueError:
                raise UserError(f"corpus.clean.scores: {path}: line {place + 1}: {text[:40]!r} is no number") from None
    return scores
