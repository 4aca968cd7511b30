"""The record of a cleaning: what each rule dropped from training, with samples, as JSON and as a page to look at.

Both files lie beside the shards. They are no part of the manifest: shards with and without them are the same.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.files import atomic_write
from dragoman.pipelines.corpus.clean.block import load_block, load_facts, load_keys
from dragoman.pipelines.corpus.clean.rules import FOLDER, JUDGED, load_failed
from dragoman.pipelines.corpus.clean.scores import FOLDER as SCORES
from dragoman.pipelines.corpus.clean.scores import load_scores
from dragoman.pipelines.corpus.plan.codes import RULES, code, load_codes
from dragoman.pipelines.corpus.plan.near_pairs import leaking_pairs
from dragoman.pipelines.corpus.plan.plan import REPEATED, CleanedCorpus

RECORD, PAGE = "cleaning.json", "cleaning.html"
SAMPLES = 20  # of each rule, and of the kept pairs
TEMPLATE = Path(__file__).with_name("cleaning.html")

Place = tuple[int, int]  # block, row among its clean pairs


def cleaning_record(corpus: str, languages: Sequence[str], planned: CleanedCorpus) -> dict[str, Any]:
    """Returns the record.

    `kept` and each of `rules` hold `pairs` (a number) and `samples`: file, line (from 1), source, target, and for a
    repeated or leaked pair the pair `beside` it. A rule that judges pairs by themselves also has `alone`: the pairs
    that fail no other such rule. Samples have a `score` where pairs were scored. Of a mix, `parts` has the pairs that
    each part keeps, and those that each rule drops of it.
    """
    plan = planned.plan
    dropped = plan.dropped.get("train", {})
    rules: dict[str, Any] = {rule: {"pairs": number, "samples": []} for rule, number in dropped.items()}
    for rule, samples in _early_samples(planned).items():
        if rule in rules:
            rules[rule]["samples"] = samples[:SAMPLES]
    for rule, number in _alone(planned).items():
        if rule in rules:
            rules[rule]["alone"] = number
    kept: dict[str, Any] = {"pairs": plan.records("train"), "samples": []}
    places: dict[str, list[Place]] = {}
    for rule in RULES:
        entry = kept if rule == "kept" else rules.get(rule)
        if entry is not None:
            places[rule] = _spread(planned, rule, entry["pairs"])
    sampled = samples_at(planned, [place for places_of_rule in places.values() for place in places_of_rule])
    for rule, places_of_rule in places.items():
        entry = kept if rule == "kept" else rules[rule]
        entry["samples"] += [sampled[place] for place in places_of_rule]
    ordered = dict(sorted(rules.items(), key=lambda item: -item[1]["pairs"]))
    return {
        "corpus": corpus,
        "languages": list(languages),
        "kept": kept,
        "rules": ordered,
        **({"parts": _by_part(planned)} if plan.parts else {}),
    }


def write_record(directory: Path, record: dict[str, Any]) -> None:
    atomic_write(directory / RECORD, json.dumps(record, ensure_ascii=False, indent=1) + "\n", durable=False)
    atomic_write(directory / PAGE, render(record), durable=False)


def render(record: dict[str, Any]) -> str:
    """Returns the page: one HTML file without links to others; every text is escaped."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    total = record["kept"]["pairs"] + sum(rule["pairs"] for rule in record["rules"].values())
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(record=record, total=max(1, total))


def _early_samples(planned: CleanedCorpus) -> dict[str, list[dict[str, Any]]]:
    """Returns rule -> samples of the pairs that were dropped while their block was cleaned."""
    samples: dict[str, list[dict[str, Any]]] = {}
    for block in planned.blocks:
        if block.source.split == "train":
            for rule, rows in load_facts(planned.clean, block.number)["examples"].items():
                samples.setdefault(rule, []).extend(
                    _sample(block.source.files[0].name, block.first_line + line, source, target)
                    for line, source, target in rows
                )
    return samples


def _by_part(planned: CleanedCorpus) -> dict[str, dict[str, int]]:
    """Returns part -> kept, and rule -> training pairs."""
    by_rule: dict[str, dict[str, int]] = {}
    for span in planned.plan.parts:
        counts = by_rule.setdefault(span.part, {"kept": 0})
        for block in planned.blocks[span.first : span.end]:
            codes = np.bincount(load_codes(planned.plan.folder, block.number), minlength=4 * len(RULES))
            dropped = load_facts(planned.clean, block.number)["dropped"] if block.source.split == "train" else {}
            each = {rule: int(codes[code("train", rule)]) for rule in RULES}
            for rule, number in (*each.items(), *dropped.items()):
                if number:
                    counts[rule] = counts.get(rule, 0) + number
    return by_rule


def _alone(planned: CleanedCorpus) -> dict[str, int]:
    """Returns judged rule -> the pairs it drops that fail no other."""
    counts = np.zeros(len(JUDGED), np.int64)
    for block in planned.blocks:
        codes = load_codes(planned.plan.folder, block.number)
        failed = load_failed(planned.plan.folder / FOLDER, block.number, len(codes))
        for number, rule in enumerate(JUDGED):
            counts[number] += ((failed == 1 << number) & (codes == code("train", rule))).sum()
    return dict(zip(JUDGED, counts.tolist(), strict=True))


def _spread(planned: CleanedCorpus, rule: str, number: int) -> list[Place]:
    """Returns the places of `SAMPLES` of the `number` training pairs with this rule, evenly over the corpus."""
    positions = np.unique(np.linspace(0, number - 1, min(number, SAMPLES)).astype(np.int64)) if number else np.empty(0)
    places: list[Place] = []
    first = 0
    for block in planned.blocks:
        rows = np.flatnonzero(load_codes(planned.plan.folder, block.number) == code("train", rule))
        inside = positions[(positions >= first) & (positions < first + len(rows))] - first
        places += [(block.number, int(rows[int(place)])) for place in inside]
        first += len(rows)
    return places


def samples_at(planned: CleanedCorpus, places: Sequence[Place]) -> dict[Place, dict[str, Any]]:
    """Returns place -> sample, with the pair `beside` it where it repeats one."""
    beside = _beside(planned)
    texts = _texts(planned, [*places, *(beside[place] for place in places if place in beside)])
    return {place: texts[place] | ({"beside": texts[beside[place]]} if place in beside else {}) for place in places}


def _beside(planned: CleanedCorpus) -> dict[Place, Place]:
    """Returns the place of a pair -> that of the pair that it repeats, or that it is nearly a copy of."""
    starts = np.cumsum([0, *(len(load_codes(planned.plan.folder, block.number)) for block in planned.blocks)])

    def place(ordinal: int) -> Place:
        block = int(np.searchsorted(starts, ordinal, side="right")) - 1
        return block, ordinal - int(starts[block])

    beside = dict(leaking_pairs(planned.plan.folder))
    path = planned.plan.folder / REPEATED
    if path.exists():
        beside |= {place(gone): place(kept) for gone, kept in np.load(path, allow_pickle=False).tolist()}
    return beside


def _texts(planned: CleanedCorpus, places: Sequence[Place]) -> dict[Place, dict[str, Any]]:
    """Returns place -> sample; every block is read once."""
    texts: dict[Place, dict[str, Any]] = {}
    for block in sorted({block for block, _ in places}):
        source, target = load_block(planned.clean, block).texts()
        lines, block_facts = load_keys(planned.clean, block)[0], planned.blocks[block]
        scores = load_scores(planned.plan.folder / SCORES, block, len(lines))
        for row in {row for number, row in places if number == block}:
            texts[block, row] = _sample(
                block_facts.source.files[0].name, block_facts.first_line + int(lines[row]), source[row], target[row]
            ) | ({"score": round(float(scores[row]), 4)} if scores[row] else {})
    return texts


def _sample(file: str, line: int, source: str, target: str) -> dict[str, Any]:
    return {"file": file, "line": line + 1, "source": source, "target": target}
