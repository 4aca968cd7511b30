"""Scores are sacreBLEU's own, on three scales that are kept apart, and significance is its own test."""

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.inference import bleu
from dragoman.model.inference.bleu import tokeniser
from dragoman.pipelines.corpus.read.built_in import everyday
from dragoman.pipelines.evaluation.metrics import moses_lines, quick_bleu, sample_table, score
from dragoman.pipelines.evaluation.significance import compare_translations

REFERENCES = [
    "Ein Hund läuft über die Wiese.",
    "Die Frau liest ein Buch, und der Mann schläft.",
    "Zwei Kinder spielen im Park.",
    "Ja.",
    "Der alte Mann mit dem grauen Bart sitzt auf einer Bank und füttert die Tauben im Park.",
]


def damaged(every: int) -> list[str]:
    """The references without each `every`-th word."""
    return [" ".join(word for n, word in enumerate(text.split(), 1) if n % every) for text in REFERENCES]


def test_equal_texts_score_full_marks() -> None:
    scores = score(REFERENCES, REFERENCES, "de")
    assert (scores.bleu, scores.bleu_moses, scores.chrf) == pytest.approx((100, 100, 100))
    assert scores.ter == 0
    assert (scores.brevity_penalty, scores.length_ratio) == (1, 1)


def test_scores_and_lines_are_those_of_the_sacrebleu_command(tmp_path: Path) -> None:
    hypotheses = damaged(4)
    for name, lines in (("hyp", hypotheses), ("ref", REFERENCES)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", str(tmp_path / "ref"), "-i", str(tmp_path / "hyp"), "-m", "bleu"]
    printed = subprocess.run([*command, "-f", "text"], capture_output=True, text=True, check=True).stdout.strip()
    scores = score(hypotheses, REFERENCES, "de")
    # the command rounds to one decimal
    assert scores.lines["bleu"].split(" = ")[0] == printed.split(" = ")[0]
    assert f"= {scores.bleu:.1f} " in printed


def test_the_two_scales_differ_where_they_should() -> None:
    hypotheses = [text.lower() for text in REFERENCES]
    scores = score(hypotheses, REFERENCES, "de")
    assert scores.bleu < 90
    assert scores.bleu_moses == pytest.approx(100)
    assert "case:mixed" in scores.signatures["bleu"]
    assert scores.signatures["bleu_moses"].endswith("tok:none|smooth:exp|version:2.6.0|pre:sacremoses.de.lc")


def test_moses_tokens_are_lower_case_and_always_the_same() -> None:
    text = 'Der "große" Hund, z.B. von Frau Müller\'s Nachbarn (links) & so.'
    expected = ['der " große " hund , z.b. von frau müller \' s nachbarn ( links ) & so .']
    assert all(moses_lines([text], "de") == expected for _ in range(3))


def test_a_language_without_spaces_is_scored_by_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.model.inference.bleu.has_mecab", lambda: False)
    references = ["犬が好きです。", "私は毎日電車で会社に行きます。"]
    scores = score(["猫が好きです。", references[1]], references, "ja")
    assert "tok:char" in scores.signatures["bleu"]
    assert scores.bleu > 50
    assert "asian:yes" in scores.signatures["ter"]
    assert 0 < scores.ter < 50, "of a sentence with one other character, and not of one other word of one"
    assert scores.unit == "characters"
    assert [(bucket.words, bucket.sentences) for bucket in scores.buckets] == [("1-10", 1), ("11-20", 1)]
    chinese = score(["你好吗。"], ["你好吗。"], "zh")
    assert "tok:zh" in chinese.signatures["bleu"]
    assert "asian:yes" in chinese.signatures["ter"]
    assert "asian:no" in score(REFERENCES, REFERENCES, "de").signatures["ter"]


def test_there_is_no_moses_figure_where_moses_has_no_rules() -> None:
    scores = score(["你好吗。"], ["你好吗。"], "zh")
    assert scores.bleu_moses is None
    assert list(scores.metrics()) == list(scores.lines) == ["bleu", "chrf", "ter"]
    assert "bleu_moses" not in scores.record()
    assert "bleu_moses" in score(REFERENCES, REFERENCES, "de").record()


def test_japanese_is_cut_into_words_where_mecab_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, expected in ((True, "ja-mecab"), (False, "char")):
        monkeypatch.setattr("dragoman.model.inference.bleu.has_mecab", lambda there=there: there)
        assert tokeniser("auto", "ja") == expected
    with pytest.raises(UserError, match=r"evaluate\.tokenize=ja-mecab: MeCab is not installed.*sacrebleu\[ja\]"):
        tokeniser("ja-mecab", "ja")


def test_sacrebleu_says_nothing_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    tokenised = ["Ein Hund läuft ."] * 200  # which it would warn of, naming an option of its own command
    with caplog.at_level("INFO"):
        logging.getLogger("sacrebleu").setLevel(logging.NOTSET)
        score(tokenised, tokenised, "de", with_buckets=False)
        logging.getLogger("sacrebleu").setLevel(logging.NOTSET)
        compare_translations(tokenised, tokenised, tokenised, "de", trials=10)
    assert not [record for record in caplog.records if record.name == "sacrebleu"]


def test_buckets_hold_every_sentence_once() -> None:
    found = score(damaged(5), REFERENCES, "de").buckets
    assert [(bucket.words, bucket.sentences) for bucket in found] == [("1-5", 2), ("6-10", 2), ("16-20", 1)]
    assert found[1].length_ratio == pytest.approx(13 / 15)


def test_empty_translations_are_scored_as_such() -> None:
    scores = score(["", ""], ["Ein Hund.", ""], "de")
    assert (scores.bleu, scores.chrf) == (0, 0)
    assert scores.buckets[0].sentences == 2


def test_a_real_difference_is_significant_and_chance_is_not() -> None:
    references = [german for _, german in everyday(400)]
    worse = [" ".join(text.split()[:-3]) for text in references]
    # each system is damaged on the other half of the sentences: equally good, though different
    halves = [[worse[n] if n % 2 == side else text for n, text in enumerate(references)] for side in (0, 1)]
    real = compare_translations(halves[0], references, references, "de", trials=200)
    chance = compare_translations(halves[0], halves[1], references, "de", trials=200)
    assert real.p_value < 0.01
    assert real.difference > 0
    assert chance.p_value > 0.2
    assert "ar:200|seed:12345" in real.signature
    assert compare_translations(halves[0], references, references, "de", trials=200) == real
    assert compare_translations(references, halves[0], references, "de", trials=200, metric="chrf").difference < 0


def test_samples_run_from_the_worst_to_the_best() -> None:
    hypotheses = [REFERENCES[0], "Frau liest", *damaged(3)[2:]]
    table = sample_table(["s"] * 5, REFERENCES, hypotheses, 3)
    assert [sample.chrf for sample in table] == sorted(sample.chrf for sample in table)
    assert table[0].hypothesis == "Frau liest"
    assert table[-1].chrf == pytest.approx(100)
    assert len(sample_table(["s"] * 5, REFERENCES, hypotheses, 50)) == 5
    assert len(sample_table(["s"] * 5, REFERENCES, hypotheses, 1)) == 1


def test_impossible_requests_are_named() -> None:
    with pytest.raises(UserError, match="1 hypotheses for 2 references"):
        score(["a"], ["a", "b"])
    with pytest.raises(UserError, match="no sentences"):
        score([], [])
    with pytest.raises(UserError, match=r"evaluate.tokenize: '13b' is not known. Did you mean '13a'"):
        score(["a"], ["a"], tokenize="13b")


def test_lower_case_scores_follow_the_language() -> None:
    turkish, english = (
        score(["istanbul çok ılık ve güzel"], ["İstanbul çok ILIK ve güzel"], code) for code in ("tr", "en")
    )
    assert turkish.bleu_moses == pytest.approx(100)
    assert english.bleu_moses is not None and english.bleu_moses < 100


CODES = {
    "zh": ("zh", "zh-Hant-TW", "yue"),
    "char": ("ja", "th_TH", "lao"),
    "13a": ("kor", "de"),
}


@pytest.mark.parametrize(("name", "code"), [(name, code) for name, codes in CODES.items() for code in codes])
def test_every_place_that_scores_knows_a_language_by_any_of_its_codes(
    name: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bleu, "has_mecab", lambda: False)
    ours, theirs = ["我今天早上去公园散步了", "Tom geht."], ["我今天早上去公园跑步了", "Tom ging."]
    found = score(ours, theirs, code)
    assert f"|tok:{name}|" in found.signatures["bleu"]
    assert quick_bleu(ours, theirs, code) == pytest.approx(found.bleu)
    tested = compare_translations(theirs, ours, theirs, code, trials=10)
    assert f"|tok:{name}|" in tested.signature and tested.candidate == pytest.approx(found.bleu)
    counter = bleu.SentenceBleu(bleu.tokeniser("auto", code, "rerank.tokenize"))
    rows = [counter.statistics([one], reference) for one, reference in zip(ours, theirs, strict=True)]
    assert bleu.bleu(sum(rows, np.zeros((1, bleu.WIDTH))))[0] == pytest.approx(found.bleu)
