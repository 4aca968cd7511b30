"""The loader: every record once an epoch, the same batches for any world size, exact resume."""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest, Split, write_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.writer import write_shard
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import EOS, PAD, TokenizerConfig
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines.loaders.pairs import LaneLoader, check_lengths, held_out_batches
from dragoman.pipelines.settings import LoaderConfig
from tests.random_shards import MakeShards, random_records

RECORDS = 1003


@pytest.fixture
def directory(make_shards: MakeShards) -> Path:
    return make_shards(random_records(RECORDS), chunk=8, shard=300)


def config(**changes: Any) -> LoaderConfig:
    return LoaderConfig(**{"lanes": 4, "batch_tokens": 256, "window_chunks": 16, "max_length": 64, **changes})


class World:
    """All ranks of a training, stepped together."""

    def __init__(
        self,
        directory: Path,
        size: int,
        settings: LoaderConfig,
        seed: int = 1,
        look: Callable[[TranslationBatch], Any] = TranslationBatch.digest,
    ) -> None:
        self.look = look
        reader = ShardReader(directory, "train")
        self.loaders = [LaneLoader(reader, settings, seed, rank, size) for rank in range(size)]
        self.lanes, self.size = settings.lanes, size

    def step(self) -> list[Any]:
        """Returns the result of `look` on each lane's batch, in the order of the lanes."""
        shares = [loader.step() for loader in self.loaders]
        return [self.look(shares[lane % self.size][lane // self.size]) for lane in range(self.lanes)]

    def state(self) -> dict[str, Any]:
        merged = {lane: at for loader in self.loaders for lane, at in loader.state().items()}
        return dict(json.loads(json.dumps(merged)))

    def load_state(self, state: dict[str, Any]) -> None:
        for loader in self.loaders:
            loader.load_state(state)

    def close(self) -> None:
        for loader in self.loaders:
            loader.close()


def epoch_of(directory: Path, epochs: int, **changes: Any) -> list[list[TranslationBatch]]:
    """Batches of lane 0 ... lanes - 1, all of the first `epochs` epochs."""
    loader = LaneLoader(ShardReader(directory, "train"), config(**changes), seed=1)
    lanes: list[list[TranslationBatch]] = [[] for _ in loader.step()]
    loader.close()
    loader.load_state({str(i): START for i in range(len(lanes))})
    before = [START] * len(lanes)
    while any(position["epoch"] < epochs for position in before):
        batches, state = loader.step(), loader.state()
        for lane, batch in enumerate(batches):
            # the position after a lane's last batch of an epoch is still in that epoch
            if state[str(lane)]["epoch"] < epochs:
                lanes[lane].append(batch)
        before = list(state.values())
    loader.close()
    return lanes


START = {"epoch": 0, "window": 0, "batch": 0}


@pytest.mark.parametrize("lanes", [1, 3, 8])
@pytest.mark.parametrize("window_chunks", [1, 16])
def test_every_record_comes_exactly_once_an_epoch(directory: Path, lanes: int, window_chunks: int) -> None:
    found = epoch_of(directory, 2, lanes=lanes, window_chunks=window_chunks)
    ids = np.concatenate([batch.ids for lane in found for batch in lane])
    assert np.bincount(ids, minlength=RECORDS).tolist() == [2] * RECORDS


def test_batches_hold_the_records_that_their_ids_name(directory: Path) -> None:
    records = random_records(RECORDS)
    loader = LaneLoader(ShardReader(directory, "train"), config(), seed=1)
    for batch in (batch for _ in range(10) for batch in loader.step()):
        assert batch.source.dtype == batch.target_in.dtype == batch.target_out.dtype == torch.int64
        for i, source, target in zip(batch.ids, batch.source, batch.target_out, strict=True):
            wanted_source, wanted_target = records[i]
            assert wanted_target is not None
            assert source[: len(wanted_source)].tolist() == wanted_source.tolist()
            assert target[: len(wanted_target)].tolist() == wanted_target.tolist()
    loader.close()


def test_the_first_epochs_go_in_both_directions_from_the_first_step_on(directory: Path) -> None:
    records = random_records(RECORDS)

    def side_of_sources(batch: TranslationBatch) -> int:
        """0: the records' sources; every row and its target are checked."""
        first = batch.source[0][batch.source[0] != PAD].tolist()
        side = [one is not None and [*one.tolist(), EOS] == first for one in records[batch.ids[0]]].index(True)
        for i, *row in zip(batch.ids, batch.source, batch.target_out, strict=True):
            for one, wanted in zip(row, records[i] if side == 0 else reversed(records[i]), strict=True):
                assert wanted is not None and one[one != PAD].tolist() == [*wanted.tolist(), EOS]
        return side

    lanes = epoch_of(directory, 3, window_chunks=5, both_directions=2)
    sides = [[side_of_sources(batch) for batch in lane] for lane in lanes]
    assert [sorted(step) for step in zip(*(side[:2] for side in sides), strict=True)] == [[0, 0, 1, 1]] * 2
    assert [side[0] for side in sides] == [0, 1, 0, 1]
    per_epoch = [len(lane) // 3 for lane in sides]
    assert all(0 < sum(side[:third]) < third for side, third in zip(sides, per_epoch, strict=True))
    assert not any(sum(side[-third + 5 :]) for side, third in zip(sides, per_epoch, strict=True))
    ids = np.concatenate([batch.ids for lane in lanes for batch in lane])
    assert np.bincount(ids, minlength=RECORDS).tolist() == [3] * RECORDS


def test_batches_keep_the_budget_and_are_well_filled(make_shards: MakeShards) -> None:
    directory = make_shards(random_records(4000), chunk=128, shard=4000)
    real = padded = 0
    for batch in (batch for lane in epoch_of(directory, 1, lanes=2, batch_tokens=512) for batch in lane):
        assert len(batch.ids) * max(batch.source.shape[1], batch.target_out.shape[1]) <= 512
        real += sum(int((table != PAD).sum()) for table in (batch.source, batch.target_out))
        padded += batch.source.numel() + batch.target_out.numel()
    assert real / padded > 0.85  # sides of these random records differ by up to 3


def check_resume(
    directory: Path,
    sizes: tuple[int, int],
    settings: LoaderConfig,
    look: Callable[[TranslationBatch], Any] = TranslationBatch.digest,
) -> list[list[Any]]:
    """Stops a world of the first size at step 37 and goes on with the second: as one rank, whose steps it returns."""
    undisturbed = World(directory, 1, settings, look=look)
    expected = [undisturbed.step() for _ in range(90)]
    undisturbed.close()
    first, second = (World(directory, size, settings, look=look) for size in sizes)
    before = [first.step() for _ in range(37)]
    state = first.state()
    first.step()  # used after the checkpoint, so lost with the crash
    first.close()
    second.load_state(state)
    after = [second.step() for _ in range(53)]
    second.close()
    assert before + after == expected
    return expected


@pytest.mark.parametrize("size", [1, 2, 4])
def test_stopped_at_step_37_any_world_size_goes_on_with_the_same_batches(directory: Path, size: int) -> None:
    expected = check_resume(directory, (2, size), config())
    assert len({digest for step in expected[:40] for digest in step}) == 160


def test_epochs_and_seeds_have_orders_of_their_own(directory: Path) -> None:
    worlds = [World(directory, 1, config(), seed) for seed in (1, 1, 2)]
    first, again, other = ([world.step() for _ in range(30)] for world in worlds)
    for world in worlds:
        world.close()
    assert first == again != other
    lanes = epoch_of(directory, 2, lanes=1)
    ids = np.concatenate([batch.ids for batch in lanes[0]])
    assert ids[:RECORDS].tolist() != ids[RECORDS:].tolist()


def test_lanes_finish_their_epochs_together(directory: Path) -> None:
    sizes = [sum(len(batch.ids) for batch in lane) for lane in epoch_of(directory, 1, lanes=4)]
    assert max(sizes) - min(sizes) <= 4 * 8  # a chunk a window


def test_records_over_the_length_are_left_out_and_said(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    longest = [max(len(side) + 1 for side in record if side is not None) for record in random_records(RECORDS)]
    loader = LaneLoader(ShardReader(directory, "train"), config(max_length=20, lanes=1), seed=1)
    seen: list[int] = []
    with caplog.at_level(logging.WARNING):
        while loader.epoch < 1:
            batch = loader.step()[0]
            if loader.epoch < 1:
                seen.extend(batch.ids.tolist())
    loader.close()
    assert sorted(seen) == [i for i, length in enumerate(longest) if length <= 20]
    assert caplog.text.count("loader.max_length=20") == 1


def test_records_over_the_budget_are_left_out_too(directory: Path) -> None:
    for lane in epoch_of(directory, 1, batch_tokens=10):
        for batch in lane:
            assert len(batch.ids) * max(batch.source.shape[1], batch.target_out.shape[1]) <= 10


def test_a_corpus_of_too_long_records_is_the_users_mistake(make_shards: MakeShards) -> None:
    directory = make_shards([(source.repeat(2), target) for source, target in random_records(100)])
    loader = LaneLoader(ShardReader(directory, "train"), config(max_length=2, batch_tokens=2), seed=1)
    with pytest.raises(UserError, match=r"loader\.max_length=2"):
        loader.step()
    with pytest.raises(UserError, match=r"loader\.max_length=2"):
        loader.step()
    loader.close()


@pytest.mark.parametrize(
    ("changes", "world", "message"),
    [
        ({"lanes": 4}, 3, r"loader\.lanes=4: 3 ranks"),
        ({"lanes": 2}, 4, r"loader\.lanes=2: 4 ranks"),
        ({"lanes": 0}, 1, r"loader\.lanes=0"),
        ({"lanes": 1000}, 1, r"loader\.lanes=1000: .* only 127 chunks"),
        ({"batch_tokens": 1}, 1, r"loader\.batch_tokens=1"),
        ({"window_chunks": 0}, 1, r"loader\.window_chunks=0"),
    ],
)
def test_settings_that_cannot_be_are_refused(directory: Path, changes: dict, world: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        LaneLoader(ShardReader(directory, "train"), config(**changes), 1, 0, world)


def test_monolingual_shards_are_refused(make_shards: MakeShards) -> None:
    directory = make_shards([(source, None) for source, _ in random_records(20)])
    with pytest.raises(UserError, match="monolingual"):
        LaneLoader(ShardReader(directory, "train"), config(), 1)


@pytest.mark.parametrize("world", [1, 3])
def test_held_out_batches_leave_nothing_out(directory: Path, world: int) -> None:
    reader = ShardReader(directory, "train")
    batches = [list(held_out_batches(reader, 10, rank, world)) for rank in range(world)]
    ids = np.concatenate([batch.ids for share in batches for batch in share])
    assert sorted(ids.tolist()) == list(range(RECORDS))
    assert max(map(len, batches)) - min(map(len, batches)) <= 1
    long = [batch for share in batches for batch in share if batch.source.shape[1] > 10]
    assert long and all(len(batch.ids) == 1 for batch in long)


LINES = [f"Number {i} of the red houses is somewhere else." for i in range(200)]


def write_lines(directory: Path, joint: bool = True) -> ShardReader:
    """Shards of LINES on both sides."""
    pair = train_pair(TokenizerConfig(vocabulary=100, joint=joint), LINES, LINES)
    pair.save(directory)
    entry = write_shard(directory, "train", 0, zip(*[pair.source.encode(LINES)] * 2, strict=True), 0, 4, "<u2")
    write_manifest(directory, Manifest("toy", ["en", "en"], pair.describe(), "<u2", {"train": Split.of([entry])}))
    return ShardReader(directory, "train")


def test_sampled_batches_read_the_same_and_repeat_after_a_resume(tmp_path: Path) -> None:
    directory, lines, reader = tmp_path, LINES, write_lines(tmp_path)
    tokenizer = load_pair(directory, reader.manifest.tokenizer).source
    settings = config(sampling=0.3, lanes=2)
    whole = LaneLoader(reader, settings, seed=1)
    steps = [whole.step() for _ in range(30)]
    whole.close()
    for batch in (batch for step in steps for batch in step):
        assert tokenizer.decode(batch.source.numpy()) == [lines[i] for i in batch.ids]
    pieces = {tuple(row) for step in steps for batch in step for row in batch.source.tolist() if 17 in batch.ids}
    assert len(pieces) > 10  # other segmentations in other epochs
    first = LaneLoader(reader, settings, seed=1)
    for _ in range(17):
        first.step()
    second = LaneLoader(reader, settings, seed=1)
    second.load_state(json.loads(json.dumps(first.state())))
    for step in steps[17:]:
        for ours, theirs in zip(second.step(), step, strict=True):
            assert torch.equal(ours.source, theirs.source) and torch.equal(ours.target_in, theirs.target_in)
    first.close()
    second.close()


def test_sampling_that_cannot_be_is_refused(directory: Path) -> None:
    reader = ShardReader(directory, "train")
    with pytest.raises(UserError, match=r"loader\.sampling=0\.1: words have one segmentation"):
        LaneLoader(reader, config(sampling=0.1), seed=1)
    with pytest.raises(UserError, match=r"loader\.sampling=1\.5"):
        LaneLoader(reader, config(sampling=1.5), seed=1)


def test_both_directions_want_one_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"loader\.both_directions=1: needs one vocabulary .* tokenizer\.joint=true"):
        LaneLoader(write_lines(tmp_path, joint=False), config(both_directions=1))


@pytest.mark.parametrize(
    ("settings", "positions", "message"),
    [
        ({"batch_tokens": 4}, None, "loader.batch_tokens=4: no record fits, each source has more than 4 tokens"),
        ({"max_length": 4}, None, "loader.max_length=4: no record fits"),
        ({}, 10, "model.max_positions=10: too few for records of up to 16 tokens; choose that many, or loader.max_le"),
        ({"max_length": 12}, 10, "too few for records of up to 12 tokens"),
        ({}, 16, ""),
        ({"max_length": 10}, 10, ""),
    ],
)
def test_lengths_are_checked_before_anything_starts(
    settings: dict[str, int], positions: int | None, message: str
) -> None:
    split = Split(9, 90, 90, [0, 5, 0, 4], [3, 3, 3, 0], [])
    if not message:
        check_lengths(split, [4, 8, 12, 16], LoaderConfig(**settings), positions)
        return
    with pytest.raises(UserError, match=re.escape(message)):
        check_lengths(split, [4, 8, 12, 16], LoaderConfig(**settings), positions)
