"""The sense test: its answers, and how they are told from vectors."""

from collections import Counter

import numpy as np
import pytest
import torch

from bench import sense_uses as senses
from bench.sense_uses import SENSES, SenseUse, accuracies, accuracy, draw_uses, sense_uses
from dragoman.model.inference.sentence_vectors import NetworkVectors
from dragoman.model.inference.words_in_context import Use
from dragoman.model.networks.bert import EncoderOnly, EncoderOnlyConfig
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines.corpus.read.built_in import phrasebook


def test_the_answer_is_the_german_word_that_the_grammar_aligns() -> None:
    found = Counter()
    for pair in phrasebook()["train"][:1500]:
        for one in sense_uses(pair):
            found[one.use.word, one.sense] += 1
            german = pair.german.lower().replace(",", "").replace("?", "").replace(".", "").split()
            assert set(german) & set(SENSES[one.use.word][one.sense].split())
            assert pair.english[slice(*one.use.span)] == one.use.word
    assert found["that", "dass"] > 50
    assert found["is", "wird"] > 10


def test_each_sense_has_as_many_uses_and_no_sentence_is_in_two_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(senses, "SIZES", {"train": 5, "valid": 2, "test": 2})
    drawn = draw_uses(1, 3000)
    assert "that" in drawn["train"]
    for split, size in senses.SIZES.items():
        for word, uses in drawn[split].items():
            assert Counter(one.sense for one in uses) == dict.fromkeys(SENSES[word], size)
    texts = [{one.use.text for uses in split.values() for one in uses} for split in drawn.values()]
    assert not texts[0] & texts[1] | texts[0] & texts[2] | texts[1] & texts[2]
    assert draw_uses(1, 40)["train"] == {}  # words without enough uses are left out


def test_accuracy_of_vectors_that_tell_the_senses_and_of_vectors_that_do_not() -> None:
    rng = np.random.default_rng(0)
    answers = ["a"] * 20 + ["b"] * 20
    apart = np.where(np.array(answers) == "a", 3.0, -3.0)[:, None] + rng.normal(size=(40, 4))
    assert accuracy(apart.astype(np.float32), answers, apart[::-1].astype(np.float32), answers[::-1]) == 1.0
    assert accuracy(apart.astype(np.float32), answers, apart.astype(np.float32), answers[::-1]) == 0.0
    same = np.ones((40, 4), np.float32)
    assert accuracy(same, answers, same, answers) == 0.5


def test_static_vectors_are_at_chance() -> None:
    texts = [f"{begin} that he {end}" for begin in ("I know", "we say", "the dog") for end in ("sees", "has", "is")]
    tokenizer = train_pair(TokenizerConfig(type="words", vocabulary=60), texts, texts).source
    torch.manual_seed(0)
    config = EncoderOnlyConfig(width=8, heads=2, feed_forward=8, layers=1, max_positions=12)
    vectors = NetworkVectors(EncoderOnly(config, tokenizer.vocabulary), tokenizer, 12)
    uses = [
        SenseUse(Use(text, (text.index("that"), text.index("that") + 4)), "der" if "dog" in text else "dass")
        for text in texts[3:]
    ]
    split = {"that": uses}
    assert accuracies(vectors, split, split, static=True) == {"that": 0.5}
    assert accuracies(vectors, split, split)["that"] > 0.5
