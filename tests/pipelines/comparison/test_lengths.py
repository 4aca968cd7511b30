import pytest

from dragoman.pipelines.comparison.translation import length_buckets, scores_by_length
from dragoman.pipelines.evaluation.significance import interval


def test_a_bucket_spans_five_lengths_and_small_ones_are_joined() -> None:
    sources = ["a"] * 3 + ["a b c d e"] * 2 + ["a b c d e f"] * 4 + ["a " * 12] * 2 + ["a " * 40]
    assert length_buckets(sources, step=5, fewest=5) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9, 10, 11]]
    assert length_buckets(sources, step=5, fewest=2) == [[0, 1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11]]
    assert length_buckets(["", "a"], fewest=20) == [[0, 1]]


def test_bleu_falls_where_the_long_sentences_are_wrong() -> None:
    short, long = "ein hund läuft schnell", "ein sehr alter hund läuft mit einem kind durch den großen park"
    sources, references = [short] * 20 + [long] * 20, [short] * 20 + [long] * 20
    hypotheses = [short] * 20 + ["ein hund läuft mit einem ball durch den park"] * 20
    first, last = scores_by_length(sources, references, hypotheses, [-2.2] * 20 + [-12.4] * 20, "13a", samples=20)
    assert [first.surprise, last.surprise] == pytest.approx([2.2 / len(short), 12.4 / len(long)])
    assert (first.low, first.high, first.sentences, first.mean) == (4, 4, 20, 4.0)
    assert first.bleu.score == pytest.approx(100.0)
    assert last.bleu.score < 50
    assert last.bleu.low <= round(last.bleu.score, 5) <= last.bleu.high  # sacreBLEU rounds the bounds


def test_an_interval_holds_the_score_and_is_the_same_again() -> None:
    references = [f"der {word} sieht einen baum" for word in ("hund", "mann", "junge", "vogel")] * 5
    hypotheses = [text.replace("einen", "den") if row % 3 else text for row, text in enumerate(references)]
    found = interval(hypotheses, references, "chrf", "13a", samples=50)
    assert found.low < found.score < found.high
    assert interval(hypotheses, references, "chrf", "13a", samples=50) == found


@pytest.mark.parametrize(
    ("hypotheses", "references", "score"),
    [(["a b c d e"], ["a b c d e"], 100.0), (["x", "y"], ["a b c d", "e f g h"], 0.0)],
    ids=["one sentence", "nothing right"],
)
def test_there_is_no_interval_of(hypotheses: list[str], references: list[str], score: float) -> None:
    found = interval(hypotheses, references, "bleu", "13a", samples=50)
    assert found.low == found.score == found.high == pytest.approx(score)
