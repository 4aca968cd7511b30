"""Files of hashes: what was put in is found, in any block and with any number of bits, and nothing else is."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.text import hashed_texts
from dragoman.model.text.hashed_texts import HashedTexts, find, read, read_of, seen, summary
from dragoman.model.text.text_keys import sentence_keys


def keys_of(number: int) -> hashed_texts.Keys:
    return np.random.default_rng(number).integers(1, 2**63, 5000, np.uint64) * np.uint64(2)


@pytest.mark.parametrize("block", [1, 700, 1 << 20])
def test_all_hashes_are_found_and_no_others(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashed_texts, "BLOCK", block if block > 1 else 500)
    keys, path = keys_of(1), tmp_path / "keys"
    HashedTexts.of([keys[:3000], keys[2000:], np.zeros(2, np.uint64)], ["another"]).write(path)
    assert find(path, keys).all() and not find(path, keys + np.uint64(1)).any()
    assert not find(path, np.zeros(1, np.uint64)).any(), "texts without letters are in no set"
    assert np.array_equal(read(path).keys, np.sort(keys)) and read(path).unknown == ("another",)
    assert summary(path) == {"hashes": 5000, "bits": 64, "unknown": ["another"]}


def test_many_hashes_are_shorter_and_lose_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashed_texts, "EXACT", 1000)
    texts, path = HashedTexts.of([keys_of(1)]), tmp_path / "keys"
    texts.write(path)
    assert texts.bits == 13 + hashed_texts.SPARE and find(path, keys_of(1)).all()
    assert find(path, keys_of(2)).mean() < 4 / 2**hashed_texts.SPARE
    assert path.stat().st_size < 2.5 * 5000


def test_joined_texts_are_those_of_all_at_the_fewest_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = HashedTexts.of([keys_of(1)[:10]], ["a"])
    monkeypatch.setattr(hashed_texts, "EXACT", 1000)
    both, path = small.joined(HashedTexts.of([keys_of(2)], ["b"])), tmp_path / "keys"
    both.write(path)
    assert both.bits == 25 and both.unknown == ("a", "b")
    assert find(path, np.concatenate([keys_of(1)[:10], keys_of(2)])).all()


def test_an_empty_set_and_a_missing_file_know_nothing(tmp_path: Path) -> None:
    HashedTexts.of(()).write(tmp_path / "keys")
    assert not find(tmp_path / "keys", keys_of(1)).any() and summary(tmp_path / "keys")["hashes"] == 0
    assert read_of(tmp_path, "old shards").unknown == ("old shards",)


def test_near_copies_of_any_side_are_seen(tmp_path: Path) -> None:
    HashedTexts.of([sentence_keys(["Tom's 2 dogs bark!", "Ein Haus."])]).write(tmp_path / "keys")
    sides = [["toms 12 DOGS bark", "a house", "..."], ["-", "ein  haus", "…"]]
    assert seen(tmp_path / "keys", sides).tolist() == [True, True, False]


@pytest.mark.parametrize("damage", [b"", b"{}\n", b'{"format":9}\n', b"\xff\xfe", None])
def test_a_damaged_file_is_named(damage: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    HashedTexts.of([keys_of(1)]).write(path)
    path.write_bytes(path.read_bytes()[:-50] if damage is None else damage)
    with pytest.raises(UserError, match=r"keys: (no hashes of training texts|damaged)"):
        find(path, keys_of(1))
