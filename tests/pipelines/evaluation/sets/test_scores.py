import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.ter import TER

from dragoman.pipelines.evaluation.metrics import score
from dragoman.pipelines.evaluation.sets.read import HeldOutSet
from dragoman.pipelines.evaluation.sets.scores import score_set, tables
from dragoman.pipelines.evaluation.significance import paired_bootstrap

SOURCES = ["a", "b", "c", "d"]
FIRST = ["der Hund sieht einen Baum", "ein Mann geht durch die Stadt", "die Frau liest das Buch", "ja"]
SECOND = ["ein Hund sieht den Baum", None, "die Frau liest ein Buch", None]
TEXTS = ["ein Hund sieht den Baum", "ein Mann geht in die Stadt", "die Frau liest ein Buch", "ja ja"]
SET = HeldOutSet(
    "news",
    SOURCES,
    [(one,) if two is None else (one, two) for one, two in zip(FIRST, SECOND, strict=True)],
    ["law", "law", "talks", ""],
)


def test_all_references_count_and_the_signature_says_so() -> None:
    found = score_set(SET, TEXTS, ["bleu", "ter"], "de")
    assert found.scores["bleu"] == pytest.approx(BLEU().corpus_score(TEXTS, [FIRST, SECOND]).score)
    assert found.scores["ter"] == pytest.approx(TER().corpus_score(TEXTS, [FIRST, SECOND]).score)
    assert found.scores["bleu"] > score(TEXTS, FIRST, "de").bleu
    assert "nrefs:var" in found.signatures["bleu"]
    assert (found.sentences, found.references) == (4, 2)


def test_a_domain_and_a_length_are_scored_by_their_own_lines() -> None:
    found = score_set(SET, TEXTS, ["bleu"], "de")
    law, none, talks = found.domains
    assert [(one.name, one.sentences) for one in (law, none, talks)] == [("law", 2), ("none", 1), ("talks", 1)]
    assert law.scores["bleu"] == pytest.approx(BLEU().corpus_score(TEXTS[:2], [FIRST[:2], SECOND[:2]]).score)
    assert [(one.name, one.sentences) for one in found.lengths] == [("1-5", 3), ("6-10", 1)]
    assert score_set(HeldOutSet("x", SOURCES, SET.references), TEXTS, ["bleu"], "de").domains == []


def test_the_tables_have_a_row_for_each_set_and_domain() -> None:
    text = tables([score_set(SET, TEXTS, ["bleu", "chrf"], "de")])
    assert " news " in text.replace("news law", "").replace("\n", " ") and "news talks" in text and "news 1-5" in text
    assert "BLEU|nrefs:var" in text and "TER" not in text


def test_the_paired_test_counts_further_references() -> None:
    with_one = paired_bootstrap(FIRST, TEXTS, FIRST, "de", samples=50)
    with_two = paired_bootstrap(FIRST, TEXTS, FIRST, "de", samples=50, more=[SECOND])
    assert with_two.candidate > with_one.candidate and "nrefs:var" in with_two.signature
