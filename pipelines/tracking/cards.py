"""MLflow's view of a version: its type, its tags and the text of its description; one row per kind of model."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SCORES = {"bleu": "BLEU {:.2f}", "chrf": "chrF {:.2f}", "ter": "TER {:.2f}"}  # of translations, on a split
MEANS = {  # of word vectors
    "similarity/mean": "similarity {:.2f} (Spearman x 100, mean by pairs)",
    "analogies/mean": "analogies {:.2f} % right (3CosAdd)",
}
VECTOR_SCORES = re.compile(r"similarity/[^/]+|analogies/([^/]+/total|mean)|coverage/[^/]+")  # as tags

BUNDLE_TAG, KIND_TAG, NOISE_TAG = "bundle_hash", "bundle_kind", "noise"
IMPORTED_TAG = "imported_source"
OF_TEXT = ("mlflow", "torch", "numpy", "sentencepiece", "safetensors")  # what language models need
TEXT_SCORES = {  # of language models, on a split
    "bits_per_character": "{:.4f} bits per character",
    "nats": "{:.4f} nats per token",
    "perplexity": "perplexity {:.2f}",
    "unknown_rate": "{:.2%} of the tokens unknown",
    "accuracy": "{:.3f} of the masked tokens guessed right",
}
REWRITING = {  # of networks that undo noise, on a split
    "nats": "{:.4f} nats per token",
    "perplexity": "perplexity {:.2f}",
    "accuracy": "{:.3f} of the tokens right",
}
LABEL_SCORES = {  # of models that label, on a split
    "accuracy": "accuracy {:.4f}",
    "macro_f1": "macro-F1 {:.4f}",
    "span_f1": "span F1 {:.4f}",
    "ece": "calibration error {:.4f}",
}


def _on_splits(config: Mapping[str, Any], figures: Mapping[str, str]) -> dict[str, Any]:
    """Returns the figures of every split that was scored, as tags."""
    scored = (config.get("scores") or {}).items()
    return {f"{split}_{name}": f"{scores[name]:.4f}" for split, scores in scored for name in figures if name in scores}


def _lines_of(tags: Mapping[str, str], figures: Mapping[str, str]) -> dict[str, str]:
    """Returns the text of every split's figures, from the tags."""
    splits = {key.removesuffix(f"_{name}") for key in tags for name in figures if key.endswith(f"_{name}")}
    return {
        split: ", ".join(
            text.format(float(tags[f"{split}_{name}"])) for name, text in figures.items() if f"{split}_{name}" in tags
        )
        for split in sorted(splits)
    }


def _described(tags: Mapping[str, str], figures: Mapping[str, str]) -> list[str]:
    return [f"**On {split}** {text}" for split, text in _lines_of(tags, figures).items()]


def _translation_scores(config: Mapping[str, Any]) -> dict[str, Any]:
    by_name = _on_splits(config, SCORES)
    for split, scores in (config.get("scores") or {}).items():
        by_name[f"{split}_signature"] = (scores.get("signatures") or {}).get("bleu")
    if noise := config.get("noise"):
        by_name |= {NOISE_TAG: noise.get("denoise"), **_on_splits(config, REWRITING)}
    return by_name | imported_tags(config)


def imported_tags(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns where an imported model comes from, as tags; empty for one that was trained here."""
    origin = config.get("imported") or {}
    return {f"imported_{key}": origin.get(key) for key in ("source", "revision", "license") if origin.get(key)}


def imported_lines(tags: Mapping[str, str]) -> list[str]:
    """Returns the line of the description that says where an imported model comes from."""
    if IMPORTED_TAG not in tags:
        return []
    revision = f", revision `{tags['imported_revision']}`" if "imported_revision" in tags else ""
    license = tags.get("imported_license", "none named")
    return [f"**Imported** from `{tags[IMPORTED_TAG]}`{revision}; license: {license}"]


def _vector_facts(config: Mapping[str, Any]) -> dict[str, Any]:
    table = config.get("table") or {}
    scores = {
        name: f"{value:.4f}" for name, value in (config.get("scores") or {}).items() if VECTOR_SCORES.fullmatch(name)
    }
    return {
        "method": (config.get("model") or {}).get("name"),
        "words": table.get("words"),
        "width": table.get("width"),
        "tokens": config.get("tokens"),
        **scores,
        **imported_tags(config),
    }


def _described_translation(tags: Mapping[str, str]) -> list[str]:
    lines = imported_lines(tags)
    if NOISE_TAG in tags:
        lines.append(f"**Pre-trained** to undo noise ({tags[NOISE_TAG]}); it translates nothing")
        lines += _described(tags, REWRITING)
    scored = _lines_of(tags, SCORES).items()
    return [*lines, *(f"{text} on {split} `{tags.get(f'{split}_signature', '')}`" for split, text in scored)]


def _described_vectors(tags: Mapping[str, str]) -> list[str]:
    words, width = int(tags.get("words", 0)), int(tags.get("width", 0))
    lines = [f"**Word vectors** {tags.get('method', '')}: {words:,} words of {width:,} numbers, `{tags.get('pair')}`"]
    lines += imported_lines(tags)
    measured = [label.format(float(tags[name])) for name, label in MEANS.items() if name in tags]
    return [*lines, f"**Scores** {', '.join(measured)}; by set among the tags"] if measured else lines


@dataclass(frozen=True)
class Card:
    """The card of a kind."""

    type: str  # MLflow's name for the model's task
    requirements: tuple[str, ...]  # packages of the stored model
    tags: Callable[[Mapping[str, Any]], Mapping[str, Any]]  # from the bundle's config.json
    lines: Callable[[Mapping[str, str]], list[str]]  # of the description, from the tags
    vectors: bool = False  # True if an answer is numbers rather than text


def text_card(type: str, title: str, figures: Mapping[str, str], own: str = "") -> Card:
    """Returns the card of networks that read texts: a title, and the figures of every split that was scored.

    The title names tags; `own` is a tag of this kind: a field of the bundle or of its model.
    """

    def tags(config: Mapping[str, Any]) -> dict[str, Any]:
        model = config.get("model") or {}
        others = {own: config.get(own, model.get(own))} if own else {}
        return {"method": model.get("name"), **others, **_on_splits(config, figures)}

    def lines(tags: Mapping[str, str]) -> list[str]:
        return [title.format_map(defaultdict(str, tags)), *_described(tags, figures)]

    return Card(type, OF_TEXT, tags, lines)


CARDS: dict[str, Card] = {
    "translation": Card(
        "translation",
        ("mlflow", "torch", "numpy", "sentencepiece", "safetensors", "ctranslate2", "sacremoses"),
        _translation_scores,
        _described_translation,
    ),
    "vectors": Card(
        "word-vectors",
        ("mlflow", "numpy", "scipy", "sentencepiece", "safetensors"),
        _vector_facts,
        _described_vectors,
        vectors=True,
    ),
    "language": text_card("language-model", "**Language model** {method}, `{pair}`", TEXT_SCORES, "vocabulary"),
    "masked": text_card("fill-mask", "**Masked language model** {method}, `{pair}`", TEXT_SCORES, "vocabulary"),
    "labels": text_card("text-classification", "**Labels** {head} by {method}, `{pair}`", LABEL_SCORES, "head"),
}
