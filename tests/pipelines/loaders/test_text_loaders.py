"""Loaders of one language: every token once, the same batches for any world size, exact resume, carried rows."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.model.errors import UserError
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import EOS, MASK, PAD
from dragoman.pipelines.evaluation.language.held_out import Span, parts, span_batches, views
from dragoman.pipelines.loaders.masked import MaskedLoader, Masking, held_out_masked, pieces_of
from dragoman.pipelines.loaders.prefetch import Lanes
from dragoman.pipelines.loaders.streams import StreamLoader, WindowLoader
from dragoman.pipelines.loaders.text import SplitText
from dragoman.pipelines.settings import LoaderConfig
from tests.random_shards import VOCABULARY, MakeShards, random_records

MASKING = Masking(VOCABULARY, 0.15)
KINDS = ("streams", "windows", "masked")


@pytest.fixture
def directory(make_shards: MakeShards) -> Path:
    return make_shards([(source, None) for source, _ in random_records(503)], chunk=8, shard=300)


@pytest.fixture
def row() -> np.ndarray[Any, np.dtype[np.int64]]:
    """The whole split as one row."""
    return np.concatenate([np.append(source, EOS) for source, _ in random_records(503)]).astype(np.int64)


def config(**changes: Any) -> LoaderConfig:
    return LoaderConfig(**{"lanes": 4, "batch_tokens": 96, "context_length": 16, "max_length": 12, **changes})


def loader(kind: str, directory: Path, settings: LoaderConfig, rank: int = 0, world: int = 1) -> Lanes[TextBatch]:
    text = SplitText(directory, "train")
    if kind == "streams":
        return StreamLoader(text, settings, 1, rank, world)
    if kind == "windows":
        return WindowLoader(text, settings, 1, rank, world)
    return MaskedLoader(text, settings, MASKING, 1, rank, world)


def take(loaders: list[Lanes[TextBatch]], steps: int) -> list[list[TextBatch]]:
    """Every lane's batch of each step, in the lanes' order."""
    found = []
    for _ in range(steps):
        shares = [one.step() for one in loaders]
        found.append([shares[lane % len(loaders)][lane // len(loaders)] for lane in range(4)])
    return found


def same(ours: list[list[TextBatch]], theirs: list[list[TextBatch]]) -> bool:
    pairs = [pair for a, b in zip(ours, theirs, strict=True) for pair in zip(a, b, strict=True)]
    return all(
        torch.equal(a.inputs, b.inputs)
        and torch.equal(a.targets, b.targets)
        and (a.lane, a.goes_on, a.digest()) == (b.lane, b.goes_on, b.digest())
        for a, b in pairs
    )


def test_a_split_is_one_row_that_goes_round(directory: Path, row: Any) -> None:
    text = SplitText(directory, "train")
    assert text.tokens == len(row) and text.language == "en"
    for start, count in [(0, 5), (len(row) - 3, 7), (-1, 4), (100, 2000), (0, len(row))]:
        assert text.read(start, count).tolist() == np.take(row, range(start, start + count), mode="wrap").tolist()
    assert text.lengths().sum() == len(row)


@pytest.mark.parametrize("kind", KINDS)
def test_any_world_size_sees_the_same_batches_and_goes_on_with_them(kind: str, directory: Path) -> None:
    """37 steps on two ranks, the rest on four: what one rank would have had."""
    alone = [loader(kind, directory, config())]
    expected = take(alone, 60)
    alone[0].close()
    first = [loader(kind, directory, config(), rank, 2) for rank in range(2)]
    before = take(first, 37)
    state = json.loads(json.dumps({lane: at for one in first for lane, at in one.state().items()}))
    take(first, 1)  # used after the checkpoint, so lost with the crash
    second = [loader(kind, directory, config(), rank, 4) for rank in range(4)]
    for one in second:
        one.load_state(state)
    after = take(second, 23)
    for one in [*first, *second]:
        one.close()
    assert same(before + after, expected)
    assert alone[0].epoch > 0  # it was about more than an epoch


def test_streams_go_on_where_their_rows_ended(directory: Path, row: Any) -> None:
    one = loader("streams", directory, config())
    steps = take([one], 60)
    one.close()
    for before, after in pairwise(steps):
        for a, b in zip(before, after, strict=True):
            if b.goes_on:
                assert torch.equal(a.targets[:, -1], b.inputs[:, 0])
                assert ((a.ids + 16) % len(row) == b.ids).all()
    begins = [number for number, step in enumerate(steps) if not step[0].goes_on]
    assert begins[0] == 0 and len(begins) > 2  # epochs
    assert all(len({batch.goes_on for batch in step}) == 1 for step in steps)
    for step in steps:
        for lane, batch in enumerate(step):
            assert batch.lane == lane and batch.items == batch.targets.numel() == 96
            for at, inputs, targets in zip(batch.ids, batch.inputs, batch.targets, strict=True):
                wanted = np.take(row, range(at - 1, at + 16), mode="wrap")
                assert inputs.tolist() == wanted[:-1].tolist() and targets.tolist() == wanted[1:].tolist()


def test_an_epoch_of_streams_reads_no_token_twice_and_leaves_out_few(directory: Path, row: Any) -> None:
    one = StreamLoader(SplitText(directory, "train"), config(), 1)
    steps = one.part // one.length
    seen = np.concatenate([batch.ids for step in take([one], steps) for batch in step])
    one.close()
    places = (seen[:, None] + np.arange(16)).ravel() % len(row)
    assert len(np.unique(places)) == len(places)
    assert len(row) - len(places) < 4 * 6 * 16 + 24  # less than a step of each row, and the division's rest


def test_an_epoch_of_windows_reads_every_token_once_but_at_the_ends(directory: Path, row: Any) -> None:
    one = WindowLoader(SplitText(directory, "train"), config(), 1)
    for epoch in range(2):
        opened = [one.open(0, epoch, number) for number in range(one.windows)]
        batches = [window.batch(i) for window in opened for i in range(window.batches)]
        places = (np.concatenate([batch.ids for batch in batches])[:, None] + np.arange(16)).ravel()
        assert len(np.unique(places)) == len(places) == places.max() - places.min() + 1
        assert places.min() < 16 and places.max() >= len(row) - 16
        for batch in batches:
            for at, inputs, targets in zip(batch.ids, batch.inputs, batch.targets, strict=True):
                assert targets.tolist() == row[at : at + 16].tolist()
                assert inputs[0] == (row[at - 1] if at else EOS)
    assert {len(batch.ids) for batch in batches} >= {6}


def test_masked_batches_hold_the_records_and_guess_some_of_them(directory: Path) -> None:
    records = random_records(503)
    one = MaskedLoader(SplitText(directory, "train"), config(), MASKING, 1)
    opened = [one.open(0, 0, number) for number in range(one.windows)]
    batches = [window.batch(i) for window in opened for i in range(window.batches)]
    pieces: dict[int, list[list[int]]] = {}
    guessed = masks = real = kept = 0
    for batch in batches:
        assert batch.items == int((batch.targets != PAD).sum()) > 0
        assert batch.inputs.numel() <= 96 and batch.inputs.shape[1] <= 12
        whole = torch.where(batch.targets != PAD, batch.targets, batch.inputs)
        for i, row in zip(batch.ids.tolist(), whole.tolist(), strict=True):
            pieces.setdefault(i, []).append([token for token in row if token != PAD])
        guessed += batch.items
        masks += int((batch.inputs == MASK).sum())
        kept += int(((batch.inputs == batch.targets) & (batch.targets != PAD)).sum())
        real += int((batch.inputs != PAD).sum())
    # a piece that is nothing but the end of its sentence has nothing to guess and is left out
    for i, found in pieces.items():
        source = [*records[i][0].tolist(), EOS]
        wanted = [source[first : first + 12] for first in range(0, len(source), 12)]
        assert sorted(found) == sorted(piece for piece in wanted if piece != [EOS])
    assert len(pieces) == 503
    assert 0.12 < guessed / real < 0.25  # at least one a piece
    assert 0.7 < masks / guessed < 0.9 and 0.05 < kept / guessed < 0.2


def test_held_out_masks_are_always_the_same_and_dealt_to_ranks(directory: Path) -> None:
    text = SplitText(directory, "train")
    whole = list(held_out_masked(text, MASKING, 12, 96))
    dealt = [list(held_out_masked(text, MASKING, 12, 96, rank, 2)) for rank in range(2)]
    assert sum(batch.items for batch in whole) == sum(batch.items for share in dealt for batch in share)
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(whole[::2], dealt[0], strict=True))


def test_whole_words_are_masked_together(directory: Path) -> None:
    begins = np.arange(VOCABULARY) % 3 == 0
    rules = Masking(VOCABULARY, 0.3, begins, np.zeros(VOCABULARY, bool))
    whole = list(held_out_masked(SplitText(directory, "train"), rules, 1000, 96))
    for batch in whole:
        original = torch.where(batch.targets != PAD, batch.targets, batch.inputs)
        inner = ~torch.from_numpy(begins)[original[:, 1:]] & (original[:, 1:] > 5)  # goes on with the word before
        chosen = batch.targets != PAD
        assert torch.equal(chosen[:, 1:][inner], chosen[:, :-1][inner])


def test_pieces_are_as_long_as_allowed() -> None:
    records, lengths = pieces_of(np.array([5, 1, 4, 2]), 2)
    assert records.tolist() == [0, 0, 0, 1, 2, 2, 3]
    assert lengths.tolist() == [2, 2, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize(
    "spans", [parts(8000, 5, 64), parts(8000, 1, 0), views(8000, 16, 16), views(8000, 16, 5), views(7, 16, 8)]
)
def test_spans_score_every_token_once(spans: list[Span], world: int, directory: Path, row: Any) -> None:
    text = SplitText(directory, "train")
    tokens = max(span.end for span in spans)
    counts = np.zeros(tokens, int)
    for rank in range(world):
        for batch in span_batches(text, spans, 3, 16, rank, world):
            scored = (batch.targets != PAD).numpy()
            places = batch.ids[:, None] + np.arange(scored.shape[1])
            assert batch.targets.numpy()[scored].tolist() == row[places[scored]].tolist()
            assert batch.items == scored.sum()
            np.add.at(counts, places[scored], 1)
    assert (counts == 1).all()


@pytest.mark.parametrize(
    ("kind", "changes", "world", "message"),
    [
        ("streams", {}, 3, r"loader\.lanes=4: 3 ranks"),
        ("streams", {"batch_tokens": 8}, 1, r"loader\.batch_tokens=8: holds no row of loader\.context_length=16"),
        ("streams", {"batch_tokens": 10**6}, 1, "more than the .* tokens of the text"),
        ("windows", {"lanes": 1000}, 1, r"loader\.lanes=1000: .* chunks"),
        ("windows", {"context_length": 10**6, "batch_tokens": 10**6}, 1, "the text has only"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    kind: str, changes: dict[str, Any], world: int, message: str, directory: Path
) -> None:
    with pytest.raises(UserError, match=message):
        loader(kind, directory, config(**changes), 0, world)


def test_a_text_of_nothing_but_unknown_words_cannot_be_masked(make_shards: MakeShards) -> None:
    directory = make_shards([(np.ones(4, np.uint16), None)] * 40)
    one = MaskedLoader(SplitText(directory, "train"), config(lanes=1), MASKING)
    with pytest.raises(UserError, match="nothing but unknown tokens"):
        one.step()
    one.close()


def test_one_side_of_pairs_is_a_text_and_must_be_named(make_shards: MakeShards) -> None:
    records = random_records(20)
    directory = make_shards(records)
    with pytest.raises(
        UserError, match=r"loader\.side: the shards are of pairs .*source \(en\), loader.side=target \(de\)"
    ):
        SplitText(directory, "train")
    text = SplitText(directory, "train", "target")
    row = np.concatenate([np.append(np.asarray(target), EOS) for _, target in records])
    assert text.language == "de"
    assert text.read(0, text.tokens).tolist() == row.tolist()


def test_one_language_has_no_side(directory: Path) -> None:
    with pytest.raises(UserError, match=r"loader\.side=target: the shards hold one language"):
        SplitText(directory, "train", "target")
