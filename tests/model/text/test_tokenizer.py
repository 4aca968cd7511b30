"""All tokenizers: what they keep, what they refuse, and that training is repeatable."""

import hashlib
import logging
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.text.normalise import normalise
from dragoman.model.text.subwords import BpeTokenizer, SubwordTokenizer
from dragoman.model.text.tokenizer import (
    EOS,
    SPECIAL,
    SPECIAL_PIECES,
    UNK,
    Kind,
    TokenizerConfig,
    TokenizerPair,
    without_surrogates,
)
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.model.text.tokenizers import draw_lines, train_pair
from dragoman.model.text.words import WordRules, WordTokenizer
from tests.model.text.sampling import sample

NAMES = ("Anna", "Peter", "the old king", "a small bird", "my sister", "Zoë", "nobody")
VERBS = ("sees", "doesn't see", "finds", "has well-known", "buys 3.14", "likes")
THINGS = ("a house.", "the (red) car!", "two dogs, three cats.", 'a "big" tree?', "water; bread", "naïve ideas...")
ENGLISH = [f"{name} {verb} {thing}" for name in NAMES for verb in VERBS for thing in THINGS]
GERMAN = [line.replace("the", "der").replace("a ", "eine ").replace("sees", "sieht") for line in ENGLISH]
KINDS: tuple[Kind, ...] = ("bpe", "unigram", "words", "characters")
NAUGHTY = [
    "",
    " ",
    "  two  spaces ",
    "a▁b c",
    "▁x",
    "x ▁y ▁",
    "a\u00a0b",
    "a\u00a0 b \u00a0",
    "日本 語語 x",
    "\0a",
    "a\tb\nc\r",
    "<s> </s> <mask> <pad> <unk>",
    "e\u0301 é ñ n\u0303",
    "x\u3000y\u2028z\x85w",
    "👩‍👩‍👧 ok 🇩🇪",
    "a" * 5000,
    "\u200b\u200d \ufeff",
    "The\ud800 king",
    "שלום עולם",
]


def subwords(pair: TokenizerPair) -> SubwordTokenizer:
    assert isinstance(pair.source, SubwordTokenizer)
    return pair.source


def config(kind: Kind, **changes: object) -> TokenizerConfig:
    return TokenizerConfig(**{"name": kind, "type": kind, "vocabulary": 150, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def pairs() -> dict[str, TokenizerPair]:
    return {kind: train_pair(config(kind), ENGLISH, GERMAN, seed=1) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_known_text_comes_back_from_rows_of_the_smallest_type(pairs: dict[str, TokenizerPair], kind: Kind) -> None:
    tokenizer = pairs[kind].source
    assert tokenizer.decode(tokenizer.encode(ENGLISH)) == ENGLISH
    rows = tokenizer.encode(["", "Anna"])
    assert [row.dtype.str for row in rows] == ["<u2", "<u2"]
    assert (len(rows[0]), rows[1].ndim) == (0, 1)
    assert tokenizer.encode([]) == [] and tokenizer.decode([]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_special_ids_are_fixed_and_never_come_from_text_nor_go_there(
    pairs: dict[str, TokenizerPair], kind: Kind
) -> None:
    tokenizer = pairs[kind].source
    assert tuple(tokenizer.pieces(range(6))) == SPECIAL_PIECES
    ids = np.concatenate(tokenizer.encode(NAUGHTY))
    assert not np.isin(ids, [0, 2, 3, 4, 5]).any()
    assert ids.max() < tokenizer.vocabulary
    row = tokenizer.encode(["Anna sees water"])[0].tolist()
    assert tokenizer.decode([[2, *row, 3, 0, 0], [], [4, 5]]) == ["Anna sees water", "", ""]
    assert "⁇" in tokenizer.decode([[*row, UNK]])[0]


@pytest.mark.parametrize("kind", KINDS)
def test_training_twice_gives_the_same_bytes_which_travel_to_other_processes(
    pairs: dict[str, TokenizerPair], kind: Kind
) -> None:
    again = train_pair(config(kind), iter(ENGLISH), iter(GERMAN), seed=1)
    assert again.source.serialise() == pairs[kind].source.serialise()
    copy = pickle.loads(pickle.dumps(pairs[kind]))
    assert copy.joint
    assert copy.source.encode(["Anna"])[0].tolist() == pairs[kind].source.encode(["Anna"])[0].tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("joint", [True, False])
def test_saved_pairs_load_again_and_changed_files_are_refused(tmp_path: Path, kind: Kind, joint: bool) -> None:
    pair = train_pair(config(kind, joint=joint), ENGLISH, GERMAN)
    names = pair.save(tmp_path)
    record = pair.describe()
    assert [entry["file"] for entry in record["files"]] == names and len(names) == 1 + (not joint)
    digests = [hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in names]
    assert [entry["sha256"] for entry in record["files"]] == digests
    loaded = load_pair(tmp_path, record)
    assert loaded.joint == joint
    assert [row.tolist() for row in loaded.target.encode(GERMAN)] == [
        row.tolist() for row in pair.target.encode(GERMAN)
    ]
    assert loaded.source.serialise() == pair.source.serialise()
    path = tmp_path / names[-1]
    path.write_bytes(path.read_bytes()[:-2] + b"xx")
    with pytest.raises(UserError, match=names[-1]):
        load_pair(tmp_path, record)


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_another_kind_are_refused(tmp_path: Path, kind: Kind) -> None:
    content = b'{"type": "other", "pieces": []}'
    (tmp_path / "x").write_bytes(content)
    file = {"side": "both", "file": "x", "sha256": hashlib.sha256(content).hexdigest()}
    record = {"type": kind, "special": SPECIAL, "files": [file]}
    with pytest.raises(UserError, match="x"):
        load_pair(tmp_path, record)
    with pytest.raises(UserError, match="no such tokenizer file"):
        load_pair(tmp_path, {**record, "files": [{**file, "file": "none"}]})
    with pytest.raises(UserError, match=r"'bpee'.*bpe, characters, huggingface, labels, unigram, words"):
        load_pair(tmp_path, {**record, "type": "bpee"})


def test_a_recorded_file_outside_of_the_directory_is_refused(tmp_path: Path, pairs: dict[str, TokenizerPair]) -> None:
    record = pairs["words"].describe()
    record["files"][0]["file"] = "../tokenizer.json"
    with pytest.raises(UserError, match="outside"):
        load_pair(tmp_path, record)


@pytest.fixture(params=["few", "many"])
def bpe(
    request: pytest.FixtureRequest, pairs: dict[str, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> BpeTokenizer:
    """A tokenizer that takes the one or the other way, with an empty table of words."""
    monkeypatch.setattr("dragoman.model.text.word_table.MANY", 0 if request.param == "many" else 1 << 40)
    return BpeTokenizer(pairs["bpe"].source.serialise())


def test_table_of_words_gives_the_ids_of_the_plain_call(bpe: BpeTokenizer) -> None:
    rng = np.random.default_rng(0)
    letters = list(" ▁aeinrst\u00a0\u0301.,<>é日\t\n ")
    texts = [text for text in NAUGHTY if "\ud800" not in text] + ENGLISH
    texts += ["".join(rng.choice(letters, rng.integers(0, 30))) for _ in range(2000)]
    for text, row in zip(texts, bpe.encode(texts), strict=True):
        assert row.dtype == bpe.dtype and row.tolist() == bpe.processor.encode(text), text


def test_lone_surrogates_are_no_obstacle(bpe: BpeTokenizer) -> None:
    found = bpe.encode(["a house", "The\ud800 king", "", "sees"])
    assert [row.tolist() for row in found] == [
        bpe.processor.encode(text) for text in ("a house", without_surrogates("The\ud800 king"), "", "sees")
    ]


def test_a_table_of_words_that_is_full_starts_again(bpe: BpeTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.model.text.word_table.CACHED_WORDS", 10)
    monkeypatch.setattr("dragoman.model.text.word_table.CACHED_LETTERS", 4)
    monkeypatch.setattr("dragoman.model.text.subwords.BLOCK_TEXTS", 3)
    for _ in range(2):
        assert [row.tolist() for row in bpe.encode(ENGLISH)] == [bpe.processor.encode(text) for text in ENGLISH]
    assert len(bpe._words) <= 12 and all(len(word) <= 4 for word in bpe._words)


def test_a_table_of_words_that_was_interrupted_is_as_good_as_new(
    bpe: BpeTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        def encode(self, *_: object, **__: object) -> None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bpe._words, "processor", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            bpe.encode(ENGLISH)
    assert [row.tolist() for row in bpe.encode(ENGLISH)] == [bpe.processor.encode(text) for text in ENGLISH]


def test_threads_may_share_a_tokenizer(pairs: dict[str, TokenizerPair]) -> None:
    tokenizer = BpeTokenizer(pairs["bpe"].source.serialise())
    with ThreadPoolExecutor(4) as threads:
        rows = list(threads.map(lambda text: tokenizer.encode([text])[0].tolist(), ENGLISH))
    assert rows == [row.tolist() for row in pairs["bpe"].source.encode(ENGLISH)]


def test_sampling_without_dropout_is_plain_encoding(pairs: dict[str, TokenizerPair]) -> None:
    rng = np.random.default_rng(0)
    for text in [*ENGLISH, *(text for text in NAUGHTY if len(text) < 100)]:
        assert sample(subwords(pairs["bpe"]), text, rng, 0.0).tolist() == pairs["bpe"].source.encode([text])[0].tolist()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_samples_differ_read_the_same_and_repeat(pairs: dict[str, TokenizerPair], kind: Kind) -> None:
    tokenizer = subwords(pairs[kind])
    first, again = (
        [sample(tokenizer, text, np.random.default_rng(i), 0.3) for i, text in enumerate(ENGLISH)] for _ in range(2)
    )
    assert [row.tolist() for row in first] == [row.tolist() for row in again]
    assert tokenizer.decode(first) == ENGLISH
    plain = tokenizer.encode(ENGLISH)
    assert sum(not np.array_equal(a, b) for a, b in zip(first, plain, strict=True)) > len(ENGLISH) / 2


def test_unigram_samples_follow_the_model(pairs: dict[str, TokenizerPair]) -> None:
    """Over many draws at strength 1 a segmentation comes as often as the pieces' probabilities say."""
    tokenizer = pairs["unigram"].source
    assert isinstance(tokenizer, SubwordTokenizer)
    pieces = tokenizer.pieces(range(tokenizer.vocabulary))
    known = {piece: tokenizer.processor.get_score(i) for i, piece in enumerate(pieces) if i > 5}
    word = next(piece for piece in known if len(piece) == 3 and piece[0] == "▁" and set(piece) <= set(known))
    ways = [[word], [word[:2], word[2]], [word[0], word[1:]], list(word)]
    weights = {tuple(way): np.exp(sum(known[p] for p in way)) for way in ways if set(way) <= set(known)}
    rng = np.random.default_rng(0)
    drawn = Counter(tuple(tokenizer.pieces(sample(tokenizer, word[1:], rng, 1.0))) for _ in range(3000))
    assert set(drawn) <= set(weights)
    for way, weight in weights.items():
        assert drawn[way] / 3000 == pytest.approx(weight / sum(weights.values()), abs=0.03)


def test_byte_fallback_writes_any_character() -> None:
    pair = train_pair(config("bpe", vocabulary=400, byte_fallback=True), ENGLISH, GERMAN)
    ids = pair.source.encode(["日本 👩"])
    assert UNK not in ids[0]
    assert pair.source.decode(ids) == ["日本 👩"]
    assert sample(subwords(pair), "日本 👩", np.random.default_rng(0), 0.0).tolist() == ids[0].tolist()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_too_large_for_the_text_is_lowered_and_said(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        pair = train_pair(config(kind, vocabulary=10_000), ENGLISH[:5], GERMAN[:5])
    assert 6 < pair.source.vocabulary < 200
    assert f"the vocabulary is {pair.source.vocabulary}" in caplog.text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_too_small_for_the_characters_is_refused(kind: Kind) -> None:
    with pytest.raises(UserError, match=r"tokenizer\.vocabulary=20: .* needs tokenizer\.vocabulary=(\d+)") as refused:
        train_pair(config(kind, vocabulary=20), ENGLISH, GERMAN)
    advised = int(str(refused.value).rpartition("=")[2].split()[0])
    assert train_pair(config(kind, vocabulary=advised), ENGLISH, GERMAN).source.vocabulary <= advised


@pytest.mark.parametrize("coverage", [0.9, 1.1, float("nan")])
def test_a_coverage_that_the_library_refuses_is_named_with_its_range(coverage: float) -> None:
    with pytest.raises(UserError, match=r"tokenizer\.character_coverage=\S+: expected 0\.98 to 1\.0"):
        train_pair(config("bpe", character_coverage=coverage), ENGLISH, GERMAN)


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_or_no_room_for_it_is_refused(kind: Kind) -> None:
    for lines in ([], ["", "  "]):
        with pytest.raises(UserError, match="no text"):
            train_pair(config(kind), lines, lines)
    with pytest.raises(UserError, match=r"tokenizer\.vocabulary=6"):
        train_pair(config(kind, vocabulary=6), ENGLISH, GERMAN)


def test_drawn_lines_keep_their_order_and_repeat() -> None:
    lines = [f"line {i:04d}" for i in range(1000)]
    drawn = draw_lines(iter(lines), 100, seed=3)
    assert drawn == draw_lines(lines, 100, seed=3) != draw_lines(lines, 100, seed=4)
    assert drawn == sorted(drawn) and len(set(drawn)) == 100
    assert draw_lines(["", *lines[:5], " "], 100, seed=3) == lines[:5]


def test_words_keep_the_frequent_ones_and_ties_in_order() -> None:
    pair = train_pair(config("words", vocabulary=10, min_count=2), ["b b a a c", "d d d <s>"], [])
    assert pair.source.pieces(range(pair.source.vocabulary))[6:] == ["d", "a", "b"]
    assert pair.source.encode(["a x <s>"])[0].tolist()[:2] == [7, UNK]
    assert EOS not in pair.source.encode(["</s>"])[0]


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("I can't, he said.", ["I", "can't", ",", "he", "said", "."]),
        ("a well-known (old) man", ["a", "well-known", "(", "old", ")", "man"]),
        ('He said "no" twice!', ["He", "said", '"', "no", '"', "twice", "!"]),
        ("3.14 and 1,000", ["3.14", "and", "1,000"]),
    ],
)
def test_words_split_and_join(text: str, units: list[str]) -> None:
    assert WordRules().split(text) == units
    assert WordTokenizer.join(units) == text


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_where_ids_are_unknown_is_named(pairs: dict[str, TokenizerPair], kind: Kind) -> None:
    tokenizer = pairs[kind].source
    for text in [normalise(one) for one in NAUGHTY] + ENGLISH[:5]:
        unknown = tokenizer.unknown(text)
        assert len(unknown) == np.count_nonzero(tokenizer.encode([text])[0] == UNK), text
        assert all(unknown) and all(unit in text for unit in unknown)
    assert tokenizer.unknown("Anna sees Жж") == {"words": ["Жж"], "characters": ["Ж", "ж"]}.get(kind, ["Жж"])
