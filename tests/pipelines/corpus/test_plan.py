"""The global plan against a plain Python reference, whatever the partitions."""

import random
from pathlib import Path

import pytest

from dragoman.pipelines.corpus.plan import plan as plan_module
from dragoman.pipelines.corpus.plan.plan import make_plan
from dragoman.pipelines.corpus.read import staging
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig, CutConfig
from tests.pipelines.corpus.planned import Pairs, cleaned_blocks, kept_pairs


def _random_pairs(count: int, seed: int) -> Pairs:
    rng = random.Random(seed)
    return [(f"Source {rng.randint(0, 400)}", f"target {rng.randint(0, 3)}") for _ in range(count)]


@pytest.mark.parametrize(("block_lines", "partition"), [(64, 1 << 18), (64, 40), (5000, 1)])
def test_repeats_are_dropped_as_a_plain_loop_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_lines: int, partition: int
) -> None:
    monkeypatch.setattr(staging, "BLOCK_LINES", block_lines)
    monkeypatch.setattr(plan_module, "_PARTITION_PAIRS", partition)
    monkeypatch.setattr(plan_module, "_BUFFERED_BLOCKS", 3)
    pairs = _random_pairs(2000, 1)
    blocks, clean = cleaned_blocks(tmp_path, {"train": pairs})
    plan = make_plan(blocks, clean, tmp_path, CorpusConfig(), 1)
    assert kept_pairs(clean, plan, "train") == list(dict.fromkeys(pairs))
    assert plan.dropped["train"] == {"duplicate": 2000 - len(set(pairs))}
    assert sorted(path.name for path in tmp_path.iterdir() if "partition" in path.name) == []


def test_training_never_holds_a_held_out_source(tmp_path: Path) -> None:
    train, valid, test = _random_pairs(900, 2), _random_pairs(60, 3), _random_pairs(60, 4)
    train = [(source.upper(), target) for source, target in train]  # case does not hide a sentence
    blocks, clean = cleaned_blocks(tmp_path, {"train": train, "valid": valid, "test": test})
    plan = make_plan(blocks, clean, tmp_path, CorpusConfig(clean=CleanConfig(duplicates=False), leaks="source"), 1)
    tested = {source.lower() for source, _ in test}
    validated = {source.lower() for source, _ in valid}
    assert kept_pairs(clean, plan, "test") == test
    assert kept_pairs(clean, plan, "valid") == [pair for pair in valid if pair[0].lower() not in tested]
    kept = [pair for pair in train if pair[0].lower() not in tested | validated]
    assert kept_pairs(clean, plan, "train") == kept
    assert plan.dropped["train"] == {"leaked": 900 - len(kept)}


@pytest.mark.parametrize("references", ["first", "all"])
def test_cut_splits_share_no_source(tmp_path: Path, references: str) -> None:
    pairs = _random_pairs(3000, 5)
    cut = CutConfig(valid=0.1, test=0.2, references=references)  # type: ignore[arg-type]
    config = CorpusConfig(cut=cut, leaks="source")
    blocks, clean = cleaned_blocks(tmp_path, {"train": pairs})
    plan = make_plan(blocks, clean, tmp_path, config, 1)
    splits = {split: kept_pairs(clean, plan, split) for split in ("train", "valid", "test")}
    sources = {split: [source for source, _ in texts] for split, texts in splits.items()}
    assert not set(sources["train"]) & (set(sources["valid"]) | set(sources["test"]))
    assert not set(sources["valid"]) & set(sources["test"])
    assert 50 < len(set(sources["test"])) < 110  # of some 400 sources
    assert 20 < len(set(sources["valid"])) < 65
    if references == "first":
        assert len(sources["test"]) == len(set(sources["test"]))
        first = dict(reversed(pairs))
        assert all(first[source] == target for source, target in splits["test"])
        assert plan.dropped["test"]["further_reference"] > 0
    else:
        assert sum(map(len, splits.values())) == len(set(pairs))


def test_the_cut_depends_on_the_seed_alone(tmp_path: Path) -> None:
    pairs = _random_pairs(1000, 6)
    config = CorpusConfig(cut=CutConfig(test=0.2), leaks="source")
    tests = []
    for number, (order, seed) in enumerate(((pairs, 1), (pairs[::-1], 1), (pairs, 2))):
        folder = tmp_path / str(number)
        blocks, clean = cleaned_blocks(folder, {"train": order})
        tests.append(
            {source for source, _ in kept_pairs(clean, make_plan(blocks, clean, folder, config, seed), "test")}
        )
    assert tests[0] == tests[1] != tests[2]
