"""Measures alignment and stores it: beside the bundle as files, in the run as metrics, table and pictures."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dragoman.model.alignment.attention_map import READINGS, AlignmentConfig, AttentionMap, Head, Link, pharaoh, read
from dragoman.model.alignment.attention_plots import heads_picture, maps_picture, save
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.model.inference.aligner import open_aligner
from dragoman.model.runs import checkpoints
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.gold import Links, gold_words
from dragoman.pipelines.evaluation.alignment_error import AlignmentEvaluation, evaluate_alignment, report, word_maps
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tracking.plots import Figure, panels
from dragoman.pipelines.tracking.run import TrackedRun

logger = logging.getLogger(__name__)

EXAMPLES, LONGEST = 4, 14  # sentences shown, and the most words of either side


def measure_run(config: Config, bundle: TranslationBundle) -> AlignmentEvaluation:
    """`dragoman evaluate evaluate.alignment=true`: measures, prints, and stores beside the bundle.

    If the bundle is that of the run `name`, the run's record gets it too. The bundle itself is not changed.
    """
    evaluation, pictures = measure_heads(config, bundle, config.evaluate.split)
    print("", report(evaluation), sep="\n")
    files = keep(evaluation, pictures, bundle.directory.parent)
    logger.info(f"kept in {', '.join(str(file) for file in files)}")
    if bundle.directory.parent == config.run_dir:
        with Run.of(config).record(system=False) as tracked:
            log(tracked, checkpoints.newest_step(config.run_dir), evaluation, pictures, files)
    return evaluation


def record_alignment(config: Config, bundle: TranslationBundle, tracked: TrackedRun, step: int) -> None:
    """Records the same at the end of a training, where the bundle also learns which head is best to show.

    If it cannot be measured (no attention, no gold alignment), it is skipped with a message, so that the training
    counts.
    """
    try:
        evaluation, pictures = measure_heads(config, bundle, config.evaluate.split)
    except UserError as problem:
        logger.warning(f"the alignment is not measured: {problem}")
        return
    bundle.update_facts({"alignment": evaluation.facts()})
    log(tracked, step, evaluation, pictures, keep(evaluation, pictures, config.run_dir))
    print(report(evaluation))


def measure_heads(
    config: Config, bundle: TranslationBundle, split: str
) -> tuple[AlignmentEvaluation, dict[str, Figure]]:
    """Returns the evaluation by the sections `evaluate` and `alignment`, and its pictures."""
    evaluation = evaluate_alignment(bundle, config.shard_dir, split, config.alignment, config.evaluate.sentences)
    return evaluation, all_pictures(evaluation, bundle)


def keep(evaluation: AlignmentEvaluation, pictures: dict[str, Figure], folder: Path) -> list[Path]:
    """Writes `alignment.SPLIT.json`, `alignment.SPLIT.txt` (Pharaoh) and the pictures; returns the paths."""
    record, lines = (folder / f"alignment.{evaluation.split}.{suffix}" for suffix in ("json", "txt"))
    content = json.dumps(evaluation.record(), indent=2, ensure_ascii=False) + "\n"
    for path, text in ((lines, "".join(f"{pharaoh(pairs)}\n" for pairs in evaluation.pharaoh)), (record, content)):
        atomic_write(path, text)
    files = [record, lines]
    (folder / "pictures").mkdir(exist_ok=True)
    for name, figure in pictures.items():
        files.append(folder / "pictures" / f"alignment_{name}.png")
        save(figure, files[-1])
    return files


def log(
    tracked: TrackedRun, step: int, evaluation: AlignmentEvaluation, pictures: dict[str, Figure], files: Sequence[Path]
) -> None:
    """Logs `test_aer` ... of the best, `test_aer_head` of the best single head, `test_aer/l2h1` ... of each."""
    split = evaluation.split
    (reading, chosen), score = evaluation.candidate, evaluation.score
    values = {
        f"{split}_aer": score.aer,
        f"{split}_alignment_precision": score.precision,
        f"{split}_alignment_recall": score.recall,
        f"{split}_aer_head": evaluation.single_score.aer,
        "valid_aer": evaluation.tables["valid"][evaluation.candidate].aer,
    }
    of_heads = {
        f"{split}_aer/{head}": error.aer for (of, head), error in evaluation.tables[split].items() if of == reading
    }
    tracked.metrics(step, {**of_heads, **values})
    tracked.tags({"alignment_head": str(chosen), "alignment_reading": reading})
    rows = evaluation.rows()
    tracked.table(list(rows[0]), [list(row.values()) for row in rows], "alignment/heads.json")
    for name, figure in pictures.items():
        tracked.figure(figure, f"alignment/{name}.png")
    for file in files:
        if file.suffix != ".png":
            tracked.artifact(file, "alignment")


def all_pictures(evaluation: AlignmentEvaluation, bundle: TranslationBundle) -> dict[str, Figure]:
    """Returns `errors` of every head; `heads`: all heads on one sentence; `maps`: the best one on several."""
    pictures = {"errors": errors_picture(evaluation)}
    chosen = examples(evaluation)
    if not chosen:
        return pictures
    sources, targets = ([side[row] for row in chosen] for side in (evaluation.sources, evaluation.targets))
    frames = [sorted(evaluation.gold[row]) for row in chosen]
    maps = word_maps(open_aligner(bundle), sources, targets, evaluation.candidate)
    pictures["maps"] = maps_picture(
        maps, [f"{sentence_map.head}, read by {sentence_map.reading}" for sentence_map in maps], frames
    )
    pictures["heads"] = every_head(evaluation, bundle, sources[0], targets[0], frames[0])
    return pictures


def every_head(
    evaluation: AlignmentEvaluation, bundle: TranslationBundle, source: str, target: str, gold: Sequence[Link]
) -> Figure:
    """Returns each head's map of one pair, in the reading of the chosen head."""
    reading, head = evaluation.single
    aligner = open_aligner(bundle, AlignmentConfig(reading=reading))
    pairs = aligner.encode([source], [ids.tolist() for ids in aligner.tokenizers.target.encode([target])])
    ((_, weights),) = aligner.weights(pairs)  # (L, H, T, S)
    maps: list[list[AttentionMap]] = [
        [aligner.make_map(pairs[0], source, target, head, gold_words) for head in layer]
        for layer in read(weights, reading)
    ]
    head_weights = np.array([[head_map.weights for head_map in layer] for layer in maps])  # (L, H, W, U)
    title = f"{bundle.config.name}: every head over the source, read by {reading}; frames: gold alignment"
    chosen = None if head.layer is None or head.head is None else (head.layer, head.head)
    return heads_picture(head_weights, maps[0][0].source_tokens, maps[0][0].target_tokens, title, gold, chosen)


def errors_picture(evaluation: AlignmentEvaluation) -> Figure:
    """Draws the error rate of every head on `split`: a panel per reading, a row per layer; green is good."""
    table = evaluation.tables[evaluation.split]
    heads = sorted({head for _, head in table if head.head is not None}, key=lambda head: (head.layer, head.head))
    layers, across = 1 + max(head.layer or 0 for head in heads), 1 + max(head.head or 0 for head in heads)
    size = 2.2 + 2 * 0.75 * across, 1.5 + 0.55 * layers
    figure, axes = panels(1, len(READINGS), size, f"Alignment error rate, {evaluation.pair} {evaluation.split}")
    for axis, reading in zip(axes, READINGS, strict=True):
        values = np.array([table[reading, head].aer for head in heads]).reshape(layers, across)
        axis.imshow(values, cmap="RdYlGn_r", vmin=0.0, vmax=1.0, aspect="auto")
        for (layer, head), value in np.ndenumerate(values):
            best = (reading, Head(layer, head)) == evaluation.single
            axis.text(head, layer, f"{value:.2f}", ha="center", va="center", weight="bold" if best else "normal")
        axis.set_xticks(range(across), [f"h{head}" for head in range(across)])
        axis.set_yticks(range(layers), [f"l{layer}" for layer in range(layers)])
        axis.tick_params(length=0, labelsize=9)
        axis.spines[:].set_visible(False)
        axis.set_title(f"read by {reading}", fontsize=10, loc="left")
    return figure


def examples(evaluation: AlignmentEvaluation) -> list[int]:
    """Returns the short pairs with the most reordering, which show an alignment best."""
    pairs = zip(evaluation.sources, evaluation.targets, strict=True)
    short = [row for row, sides in enumerate(pairs) if max(len(gold_words(text)) for text in sides) <= LONGEST]
    return sorted(short, key=lambda row: -crossings(evaluation.gold[row]))[:EXAMPLES]


def crossings(links: Links) -> int:
    """Returns the number of pairs of links that cross each other."""
    ordered = sorted(links)
    return sum(
        first[0] < second[0] and first[1] > second[1]
        for place, first in enumerate(ordered)
        for second in ordered[place + 1 :]
    )
