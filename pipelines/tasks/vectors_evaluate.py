"""`dragoman evaluate` of word vectors: scores, pictures, and other word vectors on the same tasks when asked.

dragoman evaluate evaluate.bundle=RUN vectors=english vectors.evaluate.root=SETS
dragoman evaluate evaluate.bundle=RUN evaluate.against=[glove,tfidf,one_hot] vectors=english ...
"""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from model.bundles.vectors import VectorsBundle, load_vectors
from model.errors import UserError
from model.word_vectors.embeddings import Embeddings
from pipelines.evaluation.word_vectors.comparison import METRICS, method_table, significance
from pipelines.evaluation.word_vectors.evaluation import (
    VectorsEvaluation,
    evaluate_embeddings,
    read_sets,
    report,
    table,
)
from pipelines.evaluation.word_vectors.plots import all_pictures, methods
from pipelines.evaluation.word_vectors.retrieval import Records, held_out
from pipelines.shards.manifest import MANIFEST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pipelines.config import Config  # it imports this module's caller

logger = logging.getLogger(__name__)

PICTURES, COMPARED = "pictures", "methods"


def task(config: "Config", directory: Path, rivals: Sequence[str], locate: Callable[[str], Path]) -> int:
    """Evaluate, print, and keep record and pictures beside the bundle; compare with `rivals`, which `locate` finds."""
    settings = config.vectors.evaluate
    bundle, others = load_vectors(directory), [load_vectors(locate(rival)) for rival in rivals]
    sets, records = read_sets(settings), asked_records(config)
    evaluation = evaluate_embeddings(bundle.embeddings, settings, sets, records)
    print(report(evaluation))
    pictures = all_pictures(bundle.embeddings, evaluation, sets, words=settings.words) if settings.pictures else {}
    every = named([bundle, *others])
    if others:
        compared = method_table(every, settings, sets, records)
        drawn = methods(compared)
        pictures |= {COMPARED: drawn} if drawn else {}
        print("", *as_lines(compared, list(every)), sep="\n")
        for name in list(every)[1:]:
            print("", against(config, every, name), sep="\n")
    kept = keep(evaluation, pictures, directory.parent)
    logger.info(f"kept in {kept} and {directory.parent / PICTURES}")
    return 0


def asked_records(config: "Config") -> Records:
    """The records that retrieval asks for, of `paths.shards`; none where there are no shards that hold them."""
    if not (config.shard_dir / MANIFEST).is_file():
        return ()
    try:
        return held_out(config.shard_dir, config.vectors.side)
    except UserError as problem:
        logger.info(f"no retrieval: {problem}")
        return ()


def named(bundles: Sequence[VectorsBundle]) -> dict[str, Embeddings]:
    """Bundles by the name of their method, or where two have the same by their run or directory."""
    short = [str(bundle.config.name) for bundle in bundles]
    names: dict[str, Embeddings] = {}
    for bundle, name in zip(bundles, short, strict=True):
        run = dict(bundle.facts.get("run") or {}).get("name")
        wanted = [name, str(run or name), bundle.directory.parent.name, str(bundle.directory)]
        free = [one for one in wanted[0 if short.count(name) == 1 else 1 :] if one not in names]
        names[free[0] if free else f"{name} {len(names) + 1}"] = bundle.embeddings
    return names


def against(config: "Config", every: dict[str, Embeddings], name: str) -> str:
    """One line: the first of them against `name`."""
    first = next(iter(every))
    sets = read_sets(config.vectors.evaluate)
    metric = config.promote.metric if config.promote.metric in METRICS else "auto"
    try:
        found = significance(
            every[name], every[first], sets, config.vectors.evaluate.restrict, metric, config.evaluate.bootstrap
        )
    except UserError as problem:
        return f"{first} against {name}: {problem}"
    return (
        f"{found.metric} {first} {found.candidate:.2f} against {name} {found.baseline:.2f}: {found.difference:+.2f} "
        f"(mean of {found.samples:,} resampled sets {found.mean_difference:+.2f}, p = {found.p_value:.4f}) "
        f"{found.signature}"
    )


def as_lines(compared: dict[str, dict[str, float | None]], names: Sequence[str]) -> list[str]:
    """The table of methods, a task a line."""
    rows = [
        [key, *("-" if row[name] is None else f"{row[name]:.1f}" for name in names)] for key, row in compared.items()
    ]
    return table(["on the words that all have", *names], rows)


def keep(evaluation: VectorsEvaluation, pictures: "dict[str, Figure]", folder: Path) -> Path:
    """Write `evaluation.vectors.json` and `pictures/NAME.png` into `folder`; the record's path."""
    record = folder / "evaluation.vectors.json"
    content = json.dumps({**evaluation.record(), "scores": evaluation.scores()}, indent=2, ensure_ascii=False)
    temporary = record.with_name(f".{record.name}.new")
    temporary.write_text(f"{content}\n", encoding="utf-8")
    temporary.replace(record)
    (folder / PICTURES).mkdir(exist_ok=True)
    for name, figure in pictures.items():
        figure.savefig(folder / PICTURES / f"{name}.png")
    return record
