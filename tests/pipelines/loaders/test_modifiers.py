"""Modifiers: pure functions of the record, the rates as asked for, both sides where both change."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.errors import UserError
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tags import split_tags
from dragoman.model.text.tokenizer import UNK, TokenizerConfig
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines.corpus.settings import CorpusConfig, CorpusPart
from dragoman.pipelines.loaders.modifiers import (
    EMOJI,
    MODIFIERS,
    PLACEHOLDERS,
    SIGNS,
    Draws,
    Modify,
    terms,
    title_case,
    typos,
)
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.loaders.window import Window
from dragoman.pipelines.settings import ModifiersConfig
from dragoman.pipelines.shard import shard
from tests.pipelines.conftest import Make, write_pairs
from tests.pipelines.loaders.test_pairs import World, check_resume, config
from tests.random_shards import MakeShards, random_records

LETTERS = str.maketrans("0123456789", "bcdfghklmn")


def sentence(number: int) -> tuple[str, str]:
    name = f"K{number}".translate(LETTERS)
    return f"a small dog sees {name} there {number}.", f"ein kleiner Hund sieht {name} dort {number}."


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return [sentence(number) for number in range(600)]


@pytest.fixture
def directory(make: Make, tmp_path: Path, pairs: list[tuple[str, str]]) -> Path:
    """A mix of one part with a tag, whose vocabulary writes any character."""
    part = CorpusPart("one", "en-de", ["<2de>"], train=write_pairs(tmp_path, "own", pairs))
    corpus = CorpusConfig(name="mix", parts=[part], leaks="source")
    tokenizer = TokenizerConfig(vocabulary=600, byte_fallback=True)
    return shard(make("mix", corpus=corpus, tokenizer=tokenizer)).directory


GLOSSARY = {"dog": "Hund", "cat": "Katze"}


def modified(directory: Path, epoch: int = 0, seed: int = 1, **shares: float) -> list[tuple[str, str]]:
    """All training pairs as text, after the modifiers."""
    reader = ShardReader(directory, "train")
    window = Window.of(list(reader))
    epochs = np.full(len(window.ids), epoch)
    return texts(directory, Modify(reader, ModifiersConfig(glossary=GLOSSARY, **shares), seed)(window, epochs))


def texts(directory: Path, window: Window) -> list[tuple[str, str]]:
    pair = load_pair(directory, ShardReader(directory, "train").manifest.tokenizer)
    rows = range(len(window.ids))
    sources = pair.source.decode([window.source_row(row)[:-1] for row in rows])
    targets = pair.target.decode([window.target_row(row)[:-1] for row in rows])
    return list(zip(sources, targets, strict=True))


def untagged(source: str) -> str:
    tags, text = split_tags(source, frozenset({"<2de>"}))
    assert tags == "<2de> "
    return text


@pytest.mark.parametrize("name", list(MODIFIERS))
def test_each_modifier_changes_its_share_anew_in_every_epoch(directory: Path, name: str) -> None:
    plain = modified(directory)
    first, again, second = (modified(directory, epoch, **{name: 0.3}) for epoch in (0, 0, 1))
    assert first == again
    changed = [{i for i, pair in enumerate(pairs) if pair != plain[i]} for pairs in (first, second)]
    for rows in changed:
        assert 0.2 * len(plain) < len(rows) < 0.4 * len(plain)
    assert changed[0] != changed[1]
    assert modified(directory, seed=2, **{name: 0.3}) != first
    assert all(source.startswith("<2de> ") for source, _ in first)


@pytest.mark.parametrize("markers", [False, True])
def test_shares_may_count_tokens(make: Make, tmp_path: Path, pairs: list[tuple[str, str]], markers: bool) -> None:
    """Upper case falls into single letters, unless capitals are markers."""
    corpus = CorpusConfig(train=write_pairs(tmp_path, "own", pairs), leaks="source")
    tokenizer = TokenizerConfig(vocabulary=600, byte_fallback=True, case_markers=markers)
    directory = shard(make("own", corpus=corpus, tokenizer=tokenizer)).directory
    reader = ShardReader(directory, "train")
    window, epochs = Window.of(list(reader)), np.zeros(reader.records, np.int64)
    shares = {}
    for counted in ("records", "tokens"):
        modify = Modify(reader, ModifiersConfig(upper_case=0.3), 1, counted)  # type: ignore[arg-type]
        changed, chosen = modify(window, epochs), modify.chosen(window.ids, epochs)["upper_case"]
        tokens = changed.source_lengths + changed.target_lengths
        shares[counted] = tokens[chosen].sum() / tokens.sum()
    assert 0.2 < shares["tokens"] < 0.4
    assert (shares["records"] > 0.5) is not markers


@pytest.mark.parametrize("name", list(MODIFIERS))
def test_a_record_changes_in_the_same_way_in_any_window(directory: Path, name: str) -> None:
    reader = ShardReader(directory, "train")
    modify = Modify(reader, ModifiersConfig(glossary=GLOSSARY, **{name: 0.5}), 1)
    whole = texts(directory, modify(Window.of(list(reader)), np.full(reader.records, 3)))
    chunk = reader.chunk(2).part(1, 7)
    part = texts(directory, modify(Window.of([chunk]), np.full(6, 3)))
    assert part == whole[chunk.first_id : chunk.first_id + 6]


def test_what_both_sides_get_is_the_same(directory: Path) -> None:
    plain = modified(directory)
    for name, signs in (("emoji", EMOJI), ("placeholders", PLACEHOLDERS), ("noise", SIGNS)):
        for (source, target), (before, _) in zip(modified(directory, **{name: 1.0}), plain, strict=True):
            added = [sign for sign in signs if sign in untagged(source)]
            assert added == [sign for sign in signs if sign in target], name
            assert added or source == before, name
    for (source, target), (before, other) in zip(modified(directory, upper_case=1.0), plain, strict=True):
        assert (untagged(source), target) == (untagged(before).upper(), other.upper())
    for source, target in modified(directory, no_stop=1.0):
        assert not source.endswith(".")
        assert not target.endswith(".")


def test_a_term_has_its_translation_behind_it(directory: Path) -> None:
    for (source, target), (before, other) in zip(modified(directory, terms=1.0), modified(directory), strict=True):
        assert (source, target) == (before.replace("dog", "dog [Hund]"), other)


def test_a_term_stands_where_both_sides_have_it_whole() -> None:
    known, draws = ["dog [Hund]", "hot dog [Würstchen]"], Draws(1, 0, 3, 8)
    for pair in (("a dog", "ein Kater"), ("dogs", "Hund"), ("a cat", "Hund")):
        assert terms(pair, draws, known) == pair
    assert terms(("a hot dog", "Würstchen"), draws, known) == ("a hot dog [Würstchen]", "Würstchen")
    assert terms(("dog or dog", "der Hund."), draws, known) == ("dog [Hund] or dog", "der Hund.")


@pytest.mark.parametrize("glossary", [None, {}, {"dog": " "}, {"": "Hund"}])
def test_a_glossary_has_terms(directory: Path, glossary: dict[str, str] | None) -> None:
    with pytest.raises(UserError, match=r"loader\.modifiers\.(terms: needs|glossary: )"):
        Modify(ShardReader(directory, "train"), ModifiersConfig(terms=0.1, glossary=glossary), 1)


def test_typos_change_the_source_alone(directory: Path) -> None:
    plain, changed = modified(directory), modified(directory, typos=1.0)
    assert [target for _, target in changed] == [target for _, target in plain]
    assert sum(one[0] != other[0] for one, other in zip(changed, plain, strict=True)) > 0.9 * len(plain)


@given(st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1), st.integers(0, 2**40))
def test_any_text_has_its_modified_form(text: str, record: int) -> None:
    for name, (number, modifier, signs) in MODIFIERS.items():
        results = [modifier((text, text), Draws(1, 2, record, number), signs) for _ in range(2)]
        assert results[0] == results[1], name
        assert all(isinstance(side, str) for side in results[0])
        if name not in ("typos", "terms"):
            assert results[0][0] == results[0][1], name  # equal sides change alike


@given(st.text("abcdefghij ", min_size=1, max_size=80), st.integers(0, 10_000))
def test_typos_are_few(text: str, record: int) -> None:
    found, target = typos((text, text), Draws(1, 0, record, 3), ())
    most = max(1, sum(map(str.isalpha, text)) // 10)
    assert target == text
    assert abs(len(found) - len(text)) <= most


def test_title_case_leaves_the_rest_of_a_word() -> None:
    assert title_case(("don't stop NASA", "äpfel"), Draws(1, 0, 0, 6), ()) == ("Don't Stop NASA", "Äpfel")


def test_a_record_with_unknown_characters_stays(make: Make, tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    odd = [*pairs, ("the 猫 sleeps .", "die 猫 schläft .")]
    part = CorpusPart("one", "en-de", train=write_pairs(tmp_path, "own", odd))
    tokenizer = TokenizerConfig(vocabulary=300, character_coverage=0.999)
    directory = shard(make("mix", corpus=CorpusConfig(name="mix", parts=[part], leaks="source"), tokenizer=tokenizer))
    reader = ShardReader(directory.directory, "train")
    window = Window.of(list(reader))
    changed = Modify(reader, ModifiersConfig(upper_case=1.0), 1)(window, np.zeros(len(window.ids), np.int64))
    unknown = [row for row in range(len(window.ids)) if UNK in window.source_row(row)]
    assert unknown
    for row in unknown:
        assert np.array_equal(changed.source_row(row), window.source_row(row))


def test_batches_are_the_same_on_two_ranks_and_after_a_resume(directory: Path) -> None:
    settings = config(modifiers=ModifiersConfig(typos=0.3, upper_case=0.2, emoji=0.3, placeholders=0.3))

    def look(batch: TranslationBatch) -> Any:
        return batch.source.tolist(), batch.target_out.tolist(), batch.ids.tolist()

    steps = check_resume(directory, (2, 2), settings, look=look)
    plain = World(directory, 1, config(), look=look)
    assert [plain.step() for _ in range(5)] != steps[:5]
    plain.close()


def test_modifiers_need_text(make_shards: MakeShards) -> None:
    directory = make_shards(random_records(200))
    with pytest.raises(UserError, match=r"loader.modifiers: words do not give back the text"):
        LaneLoader(ShardReader(directory, "train"), config(modifiers=ModifiersConfig(typos=0.1)), 1)


def test_signs_that_no_piece_writes_are_refused(make: Make, tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    part = CorpusPart("one", "en-de", train=write_pairs(tmp_path, "own", pairs))
    corpus = CorpusConfig(name="mix", parts=[part], leaks="source")
    result = shard(make("mix", corpus=corpus, tokenizer=TokenizerConfig(vocabulary=300)))
    with pytest.raises(
        UserError, match=r"loader.modifiers.emoji: the vocabulary can write none of .*byte_fallback=true"
    ):
        LaneLoader(ShardReader(result.directory, "train"), config(modifiers=ModifiersConfig(emoji=0.1)), 1)
