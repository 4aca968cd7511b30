"""`shards.explain=RULE`: what one rule of cleaning costs, with samples, without writing shards.

The rule is judged whether `corpus.clean.rules` names it or not. For a rule with a limit of its own, a table says what
other limits would drop. Some 14 bytes per training pair are in memory.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dragoman.model.columns import columns
from dragoman.model.errors import UserError, unknown
from dragoman.pipelines.corpus.clean.block import load_block
from dragoman.pipelines.corpus.clean.judging import JudgedPart, fit, load_fitted
from dragoman.pipelines.corpus.clean.rules import FOLDER, JUDGED, NEAR, SCORED, chosen_rules, load_failed
from dragoman.pipelines.corpus.clean.scores import FOLDER as SCORES
from dragoman.pipelines.corpus.clean.scores import load_scores
from dragoman.pipelines.corpus.making import Sharding
from dragoman.pipelines.corpus.pack.cleaning_record import SAMPLES, Place, samples_at
from dragoman.pipelines.corpus.parallel import plan_pairs
from dragoman.pipelines.corpus.plan.codes import code, load_codes
from dragoman.pipelines.corpus.plan.plan import CleanedCorpus
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig

KEY = "shards.explain"
LIMITS = {"unrelated": "min_match", SCORED: "min_score"}  # rules with a limit of their own -> its key
MATCHES = (-8.0, -6.0, -5.0, -4.0, -3.0, -2.0, 0.0, 2.0)  # nats to try
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)  # of the pairs: the scores below which they are


@dataclass
class _Pairs:
    """The training pairs of a block that reach the rules."""

    fails: npt.NDArray[np.bool_]  # (n,) the rule
    others: npt.NDArray[np.bool_]  # (n,) they fail another rule of single pairs
    values: npt.NDArray[np.float32]  # (n,) what the rule's limit is compared with; zeros for a rule without one
    rows: npt.NDArray[np.int64]  # (n,) among the block's clean pairs

    @property
    def alone(self) -> npt.NDArray[np.bool_]:
        """Returns (n,): the pairs that fail this rule and no other."""
        alone_rows: npt.NDArray[np.bool_] = self.fails & ~self.others
        return alone_rows


def with_rule(corpus: CorpusConfig, rule: str) -> CorpusConfig:
    """Returns the corpus with `rule` among the rules of each part.

    Raises UserError: no such rule, or `low_score` without scores.
    """
    if rule not in (*JUDGED, NEAR):
        raise unknown(KEY, rule, (*JUDGED, NEAR))
    if rule == SCORED and not corpus.clean.scores:
        raise UserError(f"{KEY}={rule}: needs the scores of two models: corpus.clean.scores=[FORWARD, BACKWARD]")

    def adding(clean: CleanConfig, key: str) -> CleanConfig:
        if rule == SCORED:
            return replace(clean, min_score=clean.min_score or sys.float_info.min)  # below every score
        return replace(clean, rules=[*(name for name in chosen_rules(clean, key) if name != SCORED), rule])

    parts = []
    for number, part in enumerate(corpus.parts):
        full = adding(part.clean.over(corpus.clean), f"corpus.parts[{number}].clean")
        parts.append(replace(part, clean=replace(part.clean, rules=full.rules, min_score=full.min_score)))
    return replace(corpus, clean=adding(corpus.clean, "corpus.clean"), parts=parts)


def explain(sharding: Sharding, rule: str) -> str:
    """Cleans and plans the corpus in the folder of `sharding`, and returns the report."""
    sharding.scratch.mkdir()
    with sharding.staged() as (blocks, nodes):
        planned = plan_pairs(sharding, blocks, nodes)
    costs = {judged.part: dict(_each(planned, judged, rule)) for judged in planned.judged}
    parts = {part: _join([*pairs.values()]) for part, pairs in costs.items()}
    whole = _join([*parts.values()])
    lines = [f"{rule}: {_counts(whole)}"]
    if len(parts) > 1:
        lines += [f"  {part}: {_counts(pairs)}" for part, pairs in parts.items()]
    if rule in LIMITS:
        lines += ["", *_table(rule, whole, {getattr(judged.config, LIMITS[rule]) for judged in planned.judged})]
    alone = [
        (number, row)
        for each in costs.values()
        for number, cost in each.items()
        for row in cost.rows[cost.alone].tolist()
    ]
    return "\n".join([*lines, "", *_samples(planned, alone)]) + "\n"


def _each(planned: CleanedCorpus, judged: JudgedPart, rule: str) -> Iterator[tuple[int, _Pairs]]:
    """Yields the number of each block of a part, and its pairs."""
    folder = planned.plan.folder
    fitted = fit(judged, planned.clean, folder / FOLDER) if rule == "unrelated" else None
    bit = np.uint16(1 << JUDGED.index(rule) if rule in JUDGED else 0)
    reached = [code("train", name) for name in ("kept", *JUDGED, NEAR)]
    for block in judged.blocks:
        codes = load_codes(folder, block.number)
        rows = np.flatnonzero(np.isin(codes, reached))
        failed = load_failed(folder / FOLDER, block.number, len(codes))[rows]
        values = np.zeros(len(codes), np.float32)
        if rule == SCORED:
            values = load_scores(folder / SCORES, block.number, len(codes))
        elif fitted and len(codes):
            loaded = load_block(planned.clean, block.number)
            source, target = loaded.texts()
            parity = (loaded.line.astype(np.int64) + block.first_line) % 2
            values = load_fitted(fitted).matches((source, target), parity).astype(np.float32)
        fails = failed & bit > 0 if rule in JUDGED else codes[rows] == code("train", NEAR)
        yield block.number, _Pairs(fails, failed & ~bit > 0, values[rows], rows)


def _join(each: Sequence[_Pairs]) -> _Pairs:
    names = ("fails", "others", "values", "rows")
    return _Pairs(*(np.concatenate([getattr(pairs, name) for pairs in each]) for name in names))


def _counts(pairs: _Pairs) -> str:
    fail, share = int(pairs.fails.sum()), 100 * pairs.fails.mean() if len(pairs.fails) else 0
    return f"{fail:,} of {len(pairs.fails):,} training pairs fail it ({share:.3f} %), {pairs.alone.sum():,} it alone"


def _table(rule: str, pairs: _Pairs, now: set[float]) -> list[str]:
    """Returns the pairs that other limits drop; present ones are marked."""
    tried = np.quantile(pairs.values, SHARES) if rule == SCORED and len(pairs.values) else MATCHES
    rows: list[tuple[str, ...]] = [(f"corpus.clean.{LIMITS[rule]}", "fail", "share", "alone", "")]
    for limit in sorted({*map(float, tried), *now} - {sys.float_info.min}):
        below = pairs.values < limit
        share = f"{100 * below.mean() if len(below) else 0:.3f} %"
        alone = f"{(below & ~pairs.others).sum():,}"
        rows.append((f"{limit:.4g}", f"{below.sum():,}", share, alone, "now" if limit in now else ""))
    return columns(rows, right=True)


def _samples(planned: CleanedCorpus, alone: Sequence[Place]) -> list[str]:
    """Returns pairs that fail this rule alone, evenly over the corpus; under each the pair that it repeats."""
    if not alone:
        return ["no pair fails it alone"]
    chosen = np.unique(np.linspace(0, len(alone) - 1, min(len(alone), SAMPLES)).astype(int)).tolist()
    lines = [f"{len(chosen)} of the {len(alone):,} that fail it alone, evenly over the corpus:"]
    for sample in samples_at(planned, [alone[place] for place in chosen]).values():
        lines.append(f"{sample['file']}, line {sample['line']:,}: {sample['source']} ||| {sample['target']}")
        if "beside" in sample:
            lines.append(f"    repeats {sample['beside']['source']} ||| {sample['beside']['target']}")
    return lines
