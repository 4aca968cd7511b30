"""Capitals as markers: the text comes back exactly, and words in capitals have the pieces of small ones."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.alignment.spans import surfaces, token_spans, word_spans
from dragoman.model.bundles.tokenizer_json import tokenizer_json
from dragoman.model.errors import UserError
from dragoman.model.huggingface.write import subwords
from dragoman.model.text.case_markers import MARKERS, mark, restore
from dragoman.model.text.subword_regularization import SubwordSampler
from dragoman.model.text.subwords import SubwordTokenizer
from dragoman.model.text.tokenizer import EOS, Kind, TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.model.text.tokenizers import train_pair
from tests.model.text.sampling import sample

LINES = [
    f"{first} {second} and the {third}, said {first} ({second})."
    for first in ("Anna", "PETER", "the McDonald", "I")
    for second in ("Two", "dogs", "İstanbul", "Straße", "ΟΔΟΣ")
    for third in ("U.S.", "<cap>", "king", "BIG-CAR")
]
MIXED = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *MARKERS,
                "<CAP>",
                "<Cap>",
                "<<cap>>",
                "<cap>>",
                "<<ALL>",
                "<all>.",
                "<Cap>ß",
                "",
                "ǅ",
                "ß",
                "İ",
                "ŉ",
                "ΟΔΟΣ",
                "I",
                "e-Mail",
            ]
        ),
        st.text(),
    )
).map(" ".join)


def trained(kind: Kind = "bpe", **changes: object) -> SubwordTokenizer:
    config = TokenizerConfig(type=kind, vocabulary=380, byte_fallback=True, case_markers=True, **changes)  # type: ignore[arg-type]
    found = train_pair(config, LINES, LINES, tags=["<BT>", "<2de>"]).source
    assert isinstance(found, SubwordTokenizer)
    return found


@given(MIXED)
def test_any_text_comes_back(text: str) -> None:
    assert restore(mark(text)) == text


def test_words_are_marked_by_first_letter_or_whole() -> None:
    assert mark("Two dogs RUN, (Foo) McDonald I") == "<cap> two dogs <all> run, <cap> (foo) McDonald <cap> i"
    assert mark("<cap> <CAP> <<all>>, x<all>") == "<<cap> <all> <<cap> <<<all>>, x<all>"
    astray = "<cap> two <all> <cap> run <all>. <all> <all>"
    assert restore(astray) == "Two Run .", "a network that goes astray writes no marker"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_tokenizer_with_markers_gives_texts_back_by_every_way(kind: Kind, tmp_path: Path) -> None:
    tokenizer = trained(kind)
    pair = TokenizerPair(tokenizer, tokenizer)
    pair.save(tmp_path)
    kept = load_pair(tmp_path, pair.describe()).source
    assert kept.markers == tokenizer.markers == {"<cap>": 6, "<all>": 7} and pair.describe()["special"]["<cap>"] == 6
    lines = [*LINES, *(line.upper() for line in LINES), "<BT> <2de> Anna", "a▁B C"]
    rows = kept.encode(lines)
    assert kept.decode(rows) == [line.replace("▁", " ") for line in lines]
    assert [row.tolist() for row in rows] == [kept.encode([line])[0].tolist() for line in lines]
    assert [kept.decode([sample(tokenizer, line, np.random.default_rng(1), 0.5)])[0] for line in lines[:-1]] == lines[
        :-1
    ]
    small, capitals = (kept.encode([text])[0].tolist() for text in ("the king", "THE KING"))
    assert [one for one in capitals if one != 7] == small and capitals.count(7) == 2
    assert isinstance(kept, SubwordTokenizer) and kept.tags == {"<BT>", "<2de>"}
    drawn = SubwordSampler(kept, 0.5, 1).resample([np.append(row, EOS) for row in rows], np.random.Philox(1))
    assert kept.decode([row[:-1] for row in drawn]) == kept.decode(rows)


def test_many_texts_have_the_same_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = trained()
    before = [row.tolist() for row in tokenizer.encode(LINES)]
    monkeypatch.setattr("dragoman.model.text.word_table.MANY", 0)
    assert [row.tolist() for row in tokenizer.encode(LINES)] == before


def test_a_marker_belongs_to_the_word_that_follows() -> None:
    tokenizer, text = trained(), "the KING and Anna."
    ids = tokenizer.encode([text])[0]
    spans = dict(zip(tokenizer.pieces(ids), token_spans(surfaces(tokenizer, ids), text), strict=True))
    words = [text[begin:end] for begin, end in word_spans(text)]
    assert words == ["the", "KING", "and", "Anna", "."]
    assert spans["▁<all>"] == (4, 4) and text.find("KING") == 4
    assert spans["▁<cap>"] == (13, 13) and text.find("Anna") == 13


def test_exports_that_cannot_hold_the_rule_refuse_it() -> None:
    tokenizer = trained()
    for export in (tokenizer_json, subwords):
        with pytest.raises(UserError, match="case_markers=true"):
            export(tokenizer)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("config", "tags", "message"),
    [
        (TokenizerConfig(type="words", case_markers=True), (), "case_markers=true: for tokenizer.type=bpe and unigram"),
        (TokenizerConfig(case_markers=True), ("<cap>",), "<cap> of corpus.parts is one of its markers"),
    ],
)
def test_what_has_no_markers_is_refused(config: TokenizerConfig, tags: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        train_pair(config, LINES, LINES, tags=tags)


def test_a_tag_of_that_name_makes_no_markers() -> None:
    """Vocabularies from before, whose mix had such a tag."""
    found = train_pair(TokenizerConfig(vocabulary=380, byte_fallback=True), LINES, LINES, tags=["<cap>"]).source
    assert not found.markers and found.decode(found.encode(["<cap> Anna"])) == ["<cap> Anna"]
