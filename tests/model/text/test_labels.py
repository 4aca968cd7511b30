"""Label vocabularies: their three kinds, their files, and tags that stand where words begin."""

from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.text.labels import FIRST, GAP, LabelTokenizer, encode_tagged, encode_words
from dragoman.model.text.tokenizer import UNK, Tokenizer, TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.model.text.tokenizers import train


@pytest.fixture(scope="module")
def subwords() -> Tokenizer:
    return train(TokenizerConfig(vocabulary=40, train_lines=0), ["the dog barks loudly", "the cats bark", "a dog"] * 9)


@pytest.mark.parametrize(
    ("task", "texts", "labels"),
    [
        ("classes", ["very good", "bad", "bad"], ["bad", "very good"]),
        ("tags", ["DET NOUN", "NOUN VERB"], ["DET", "NOUN", "VERB"]),
    ],
)
def test_reads_back_what_it_wrote(task: str, texts: list[str], labels: list[str]) -> None:
    made = LabelTokenizer.of(task, texts)  # type: ignore[arg-type]  # one of the tasks
    again = LabelTokenizer.deserialise(made.serialise(), "target.json")
    assert again.labels == labels and again.serialise() == made.serialise()
    assert again.decode(again.encode(texts)) == texts


@pytest.mark.parametrize(("task", "texts"), [("classes", ["good", "good"]), ("tags", ["X X"])])
def test_labels_that_are_all_the_same_teach_nothing(task: str, texts: list[str]) -> None:
    with pytest.raises(UserError, match=f"corpus.labels={task}"):
        LabelTokenizer.of(task, texts)  # type: ignore[arg-type]  # one of the tasks


def test_a_pair_of_text_and_labels_is_recorded_with_both_kinds(tmp_path: Path, subwords: Tokenizer) -> None:
    pair = TokenizerPair(subwords, LabelTokenizer.of("classes", ["a", "b"]))
    assert sorted(pair.save(tmp_path)) == ["source.model", "target.json"]
    again = load_pair(tmp_path, pair.describe())
    assert again.source.type == "bpe" and isinstance(again.target, LabelTokenizer)


def test_a_tag_stands_at_the_first_piece_of_its_word(subwords: Tokenizer) -> None:
    labels = LabelTokenizer.of("tags", ["DET NOUN VERB ADV"])
    ((ids, tags),) = encode_tagged(subwords, labels, ["the dog barks loudly"], ["DET NOUN VERB ADV"])
    ((same, starts),) = encode_words(subwords, [["the", "dog", "barks", "loudly"]])
    assert ids.tolist() == same.tolist() and len(ids) == len(tags) > 4
    assert [labels.written[tag] for tag in tags[starts]] == ["DET", "NOUN", "VERB", "ADV"]
    assert {int(tag) for place, tag in enumerate(tags) if place not in starts} == {GAP}
    assert (tags[starts] >= FIRST).all()


def test_a_word_that_the_tokenizer_leaves_out_has_a_place_still() -> None:
    words = train(TokenizerConfig(type="words", punctuation=False, train_lines=0), ["dog barks", "dog runs"])
    ((ids, starts),) = encode_words(words, [["dog", ".", "barks"]])
    assert ids[1] == UNK and starts.tolist() == [0, 1, 2]


def test_tags_and_words_of_unequal_counts_are_refused(subwords: Tokenizer) -> None:
    labels = LabelTokenizer.of("tags", ["DET NOUN"])
    with pytest.raises(ValueError, match="2 words and 1 tag"):
        list(encode_tagged(subwords, labels, ["the dog"], ["DET"]))
