from dataclasses import replace

import numpy as np
import pytest

from dragoman.model.alignment.attention_map import AttentionMap
from dragoman.pipelines.comparison.alignments import SentenceMaps, sharpness
from dragoman.pipelines.comparison.measures import TrainingRecord
from dragoman.pipelines.comparison.page import Report, Sample, best_of, render
from dragoman.pipelines.comparison.pictures import LengthScore, Picture, describe_length
from dragoman.pipelines.comparison.samples import samples
from dragoman.pipelines.comparison.seeds import steps
from dragoman.pipelines.comparison.table import amount, table_of
from dragoman.pipelines.comparison.translation import TranslationMeasures, describe_scores
from dragoman.pipelines.evaluation.significance import Interval, score_resampled

REFERENCES = ["der hund sieht einen baum", "ein mann geht durch die stadt", "die frau liest"]
ONE = TranslationMeasures(
    label="a<b",
    architecture="rnnenc",
    trained_here=True,
    bundle="ab" * 32,
    run="r",
    parameters=2_610_000,
    bleu=Interval(20.0, 18.5, 21.5),
    chrf=Interval(40.0, 39.0, 41.0),
    lengths=[],
    signatures={"bleu": "s", "chrf": "t"},
    sentences_per_second=1234.5,
    engine="torch",
    beam=5,
    length_penalty=1.0,
    hypotheses=["der hund sieht den baum", "mann geht stadt", "frau"],
    key="k",
)


def test_the_table_says_what_a_row_won_over_the_row_before() -> None:
    two = replace(ONE, label="b", hypotheses=REFERENCES, bleu=Interval(100.0, 100.0, 100.0), trained_here=False)
    runs = {"a<b": [ONE], "b": [two]}
    gains = steps(
        runs, "bleu", lambda of: score_resampled([one.hypotheses for one in of], REFERENCES, "bleu", "13a", 20), 20
    )
    assert list(gains) == ["b"] and gains["b"][0].difference > 30 and gains["b"][1] is None
    table = table_of([ONE, two], {"b": TrainingRecord(3, 1_500_000, 2.5, 800.0)}, gains, 1)
    assert table.metrics["b/bleu_won"] > 30 and "b/bleu_won_p" not in table.metrics
    first, second = table.rows
    assert first[0] == ("a<b", "")
    assert (first[4], first[5], first[6]) == (("2.61M", ""), ("–", ""), ("–", ""))
    assert second[0] == ("b", "as it stands")
    assert (second[5], second[6]) == (("1.50M", "2 min 30 s"), ("800", ""))
    assert "1,234.5" in str(table)


def test_what_people_wrote_is_text_on_the_page() -> None:
    table = table_of([ONE], {}, {}, 1)
    picture = Picture("p", "Title & more", 'a "quote" <i>', "alt <x>", b"\x89PNG", "quality")
    sample = Sample("<script>alert(1)</script>", "$ref", {"a<b": "</td>"})
    text = render(Report("t <b>", "lead", table, [picture], [sample], ["note $1"]))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "<title>t &lt;b&gt;</title>" in text
    assert 'alt="Title &amp; more. alt &lt;x&gt;"' in text
    assert "data:image/png;base64,iVBORw==" in text
    assert "$ref" in text
    assert "note $1" in text
    assert 'id="length"' not in text  # no section without pictures


def test_what_is_wider_than_a_phone_says_that_it_scrolls() -> None:
    table = table_of([ONE], {}, {}, 1)
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    every = [Picture(name, name, "", "", header + width.to_bytes(4, "big"), "quality")
             for name, width in (("narrow", 500), ("broad", 900))]  # fmt: skip
    text = render(Report("t", "l", table, every))
    assert '<figure id="narrow"><div class="scroll"><img' in text
    assert '<figure id="broad"><div class="scroll wide" tabindex="0"' in text
    assert '<div class="scroll wide" tabindex="0" role="region" aria-label="Table of networks">' in text


def test_a_tiny_budget_and_endless_translations_stay_readable() -> None:
    low = replace(ONE, bleu=Interval(0.0, -0.01, 0.1))
    table = table_of([low], {"a<b": TrainingRecord(1, 6_000, 0.3, 80.0)}, {}, 1)
    assert table.rows[0][1] == ("0.0", "0.0 to 0.1")
    assert table.rows[0][5] == ("6,000", "18 s")
    text = render(Report("t", "l", table, [], [Sample("s", "r", {"a": "und " * 500})]))
    assert 380 < text.count("und ") * 4 < 420
    words, weights = ("x",) * 90, np.full((90, 3), 1 / 3, dtype=np.float32)
    chosen = AttentionMap(("a", "b", "</s>"), words, weights, "mean", "output")
    shown = SentenceMaps("x " * 90, chosen, [[weights]]).cut()
    assert shown.chosen.target_tokens == (*("x",) * 9, "x … 80 more")
    assert shown.chosen.weights.shape == shown.heads[0][0].shape == (10, 3)


def test_the_best_of_a_column() -> None:
    assert best_of(["1.5", "–", "1,200", "1,200"]) == {2, 3}
    assert best_of(["1.5", "–"]) == set()


@pytest.mark.parametrize(("number", "text"), [(950, "950"), (9999, "9,999"), (12_300, "12.3k"), (2_610_000, "2.61M")])
def test_amounts(number: int, text: str) -> None:
    assert amount(number) == text


def test_samples_go_from_short_to_long() -> None:
    sources = ["a b c", "a", "", "a b c d e", "a b"]
    found = samples(sources, sources, {"x": [text.upper() for text in sources]}, count=3)
    assert [one.source for one in found] == ["a", "a b c", "a b c d e"]
    assert found[0].translations == {"x": "A"}


def test_pictures_say_what_they_show() -> None:
    assert describe_scores([ONE]) == "a<b BLEU 20.0 (18.5 to 21.5), chrF 40.0 (39.0 to 41.0)"
    lengths = [
        LengthScore(1, 5, 20, 4.0, Interval(30.0, 29, 31), 0.5),
        LengthScore(20, 25, 20, 22.0, Interval(10.0, 9, 11), 0.75),
    ]
    assert describe_length({"n": lengths}) == (
        "From sources of 1-5 words to those of 20-25: n 30.0 to 10.0 BLEU (-20.0), 0.50 to 0.75 nats."
    )
    assert sharpness(np.eye(3, dtype=np.float32)) == pytest.approx(1.0)
    assert sharpness(np.full((2, 4), 0.25, np.float32)) == pytest.approx(0.0)
