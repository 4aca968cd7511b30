"""Answers of a registered version through MLflow (`open_answers`), by the head of a model that labels texts.

Language models, masked ones, word vectors and translations: tests/pipelines/tracking.
"""

from pathlib import Path

import pytest
import torch

from dragoman.model.bundles.labelled import load_label_bundle
from dragoman.model.bundles.network import save_bundle
from dragoman.model.inference.kinds import open_answers
from dragoman.model.inference.labeller import Labeller
from dragoman.model.networks.heads import TransformerHead, TransformerHeadConfig
from dragoman.model.text.labelled_words import Words
from dragoman.model.text.labels import LabelTokenizer
from dragoman.model.text.tokenizer import TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import train

LINES = ["the dog sees the man", "a small cat sleeps"]
LABELS = {"classes": ["good", "bad"], "tags": ["noun", "verb", "other"]}


@pytest.mark.parametrize("head", LABELS)
def test_a_version_that_labels_answers_by_its_head(head: str, tmp_path: Path) -> None:
    tokenizer = train(TokenizerConfig(vocabulary=60), LINES)
    labels = LabelTokenizer.of(head, LABELS[head])  # type: ignore[arg-type]  # one of its literals
    config = TransformerHeadConfig(width=16, heads=2, feed_forward=16, layers=1, max_positions=24, head=head)  # type: ignore[arg-type]
    torch.manual_seed(1)
    network = TransformerHead(config, tokenizer.vocabulary, labels.vocabulary)
    folder = tmp_path / "bundle"
    save_bundle(
        folder, network=network, config=config, tokenizers=TokenizerPair(tokenizer, labels), facts={"pair": "en"}
    )
    labeller = Labeller(load_label_bundle(folder))
    answers = open_answers(folder)(LINES, {})
    if head == "classes":
        assert answers == [row[0].label for row in labeller.classify(LINES)]
    else:
        tagged = labeller.tag([Words.split(line) for line in LINES])
        assert answers == [" ".join(word.tag for word in row) for row in tagged]
