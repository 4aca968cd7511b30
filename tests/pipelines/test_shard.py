"""The verb `shard`: from files to a shard directory, the same bytes whatever happens on the way."""

import dataclasses
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.shards.manifest import ShardsConfig
from dragoman.model.text.normalise import normalise
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.pipelines.config import PathsConfig
from dragoman.pipelines.corpus.read.cutting import fill_auto_cut
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig, CutConfig, SplitFiles
from dragoman.pipelines.shard import shard, task
from dragoman.pipelines.tasks.translation import TRANSLATION
from dragoman.pipelines.tracking.settings import TrackingConfig
from tests.pipelines.conftest import Make, directory_bytes, make_pairs, split_texts, write_pairs

pytestmark = pytest.mark.usefixtures("small_blocks")


def test_what_goes_in_comes_out_in_order(make: Make) -> None:
    result = shard(make("shards"))
    assert split_texts(result, "train") == make_pairs(900, 1)
    assert split_texts(result, "valid") == make_pairs(60, 2)
    assert len(result.manifest.split("train").shards) > 4
    assert not (result.directory / ".work").exists()
    for split, seed in (("valid", 2), ("test", 3)):
        for side, language in enumerate(("en", "de")):
            text = (result.directory / f"{split}.{language}.txt").read_text(encoding="utf-8")
            assert text.split("\n")[:-1] == [pair[side] for pair in make_pairs(60, seed)]
            assert result.manifest.texts[split][language]["lines"] == 60


def test_the_manifest_says_what_it_was_made_from(make: Make, tmp_path: Path) -> None:
    pairs = [*make_pairs(900, 1), ("", "blank"), ("same", "same"), make_pairs(900, 1)[0], make_pairs(60, 3)[5]]
    corpus = CorpusConfig(
        name="dirty", train=write_pairs(tmp_path, "dirty", pairs), test=write_pairs(tmp_path, "test", make_pairs(60, 3))
    )
    manifest = shard(make("shards", corpus=corpus)).manifest
    assert manifest.dropped == {"train": {"blank": 1, "copy": 1, "duplicate": 1, "leaked": 1}, "valid": {}, "test": {}}
    entry = next(entry for entry in manifest.sources if entry["name"] == "dirty.en")
    path = tmp_path / "dirty.en"
    assert entry["sha256"] == file_sha256(path)
    assert (entry["lines"], entry["bytes"], entry["split"]) == (904, path.stat().st_size, "train")
    assert manifest.languages == ["en", "de"]
    assert manifest.normalisation == "NFC"
    assert len(manifest.config_hash) == 64
    assert str(tmp_path) not in (tmp_path / "shards" / "manifest.json").read_text(encoding="utf-8")


def test_the_same_command_again_finds_them(make: Make) -> None:
    first = shard(make("shards"))
    before = directory_bytes(first.directory)
    again = shard(make("shards", shards=ShardsConfig(chunk_records=32, verify=True)))
    assert (first.found, again.found) == (False, True)
    assert directory_bytes(first.directory) == before


def test_verify_names_the_file_that_changed(make: Make) -> None:
    directory = shard(make("shards")).directory
    path = directory / "train-000001.tar"
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"train-000001.tar: its sha256 is not the one"):
        shard(make("shards", shards=ShardsConfig(chunk_records=32, verify=True)))


def test_shards_of_another_configuration_are_refused_by_the_key_that_differs(make: Make) -> None:
    shard(make("shards"))
    with pytest.raises(UserError, match=r"\(seed: 1 there, 2 here\); delete the folder, or make these beside them: "):
        shard(make("shards", seed=2))


def test_shards_of_a_changed_corpus_are_refused(make: Make, tmp_path: Path) -> None:
    shard(make("shards"))
    write_pairs(tmp_path, "train", make_pairs(800, 1))
    with pytest.raises(UserError, match="the corpus files have other contents"):
        shard(make("shards"))


def test_a_folder_with_other_files_is_left_alone(make: Make, tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(UserError, match=r"holds files that are not shards \(thesis.txt\)"):
        shard(make("shards"))
    assert (tmp_path / "shards" / "thesis.txt").exists()


def test_where_the_files_lie_does_not_matter(make: Make, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    corpus = CorpusConfig(
        name="small",
        root=str(elsewhere),
        train=write_pairs(elsewhere, "train", make_pairs(900, 1)),
        valid=write_pairs(elsewhere, "valid", make_pairs(60, 2)),
        test=write_pairs(elsewhere, "test", make_pairs(60, 3)),
    )
    assert shard(make("a")).manifest_hash == shard(make("b", corpus=corpus)).manifest_hash


def test_cut_splits_and_tab_separated_rows(make: Make, tmp_path: Path) -> None:
    rows = [(source, f"{target} {version}") for source, target in make_pairs(400, 1) for version in "xyz"]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{target}\t{source}\n" for source, target in rows), encoding="utf-8")
    corpus = CorpusConfig(
        format="tsv", columns=["de", "en"], train=SplitFiles(file=str(path)), cut=CutConfig(valid=0.1, test=0.1)
    )
    result = shard(make("shards", corpus=corpus))
    held = {split: [source for source, _ in split_texts(result, split)] for split in ("train", "valid", "test")}
    assert not set(held["train"]) & set(held["valid"] + held["test"])
    assert len(held["test"]) == len(set(held["test"]))
    assert len(held["train"]) == 3 * len(set(held["train"]))


def test_naughty_strings_go_through_whole(naughty: list[str], make: Make, tmp_path: Path) -> None:
    wanted = list(dict.fromkeys(text for line in naughty if (text := normalise(line))))
    files = (tmp_path / "blns", tmp_path / "marked")
    for path, mark in zip(files, ("", "~"), strict=True):
        path.write_bytes("".join(f"{line}{mark if line else ''}\n" for line in naughty).encode())
    corpus = CorpusConfig(
        train=SplitFiles(source=str(files[0]), target=str(files[1])),
        clean=CleanConfig(max_ratio=0, copies=False),
        cut=CutConfig(valid=0, test=0),
    )
    tokenizer = TokenizerConfig(name="characters", type="characters", vocabulary=5000)
    result = shard(make("shards", corpus=corpus, tokenizer=tokenizer))
    found = dict.fromkeys(
        source for source, _ in split_texts(result, "train")
    )  # "x " and "x" are one, marked they are two
    assert list(found) == wanted


def test_nothing_left_names_the_rules(make: Make, tmp_path: Path) -> None:
    corpus = CorpusConfig(train=write_pairs(tmp_path, "copies", [("a", "a"), ("b", "b"), ("", "c")]))
    with pytest.raises(UserError, match="no training pair is left; dropped: blank 1, copy 2"):
        shard(make("shards", corpus=corpus))
    assert not make("shards", corpus=corpus).shard_dir.exists(), "what is refused leaves nothing behind"


def test_pairs_that_all_differ_by_a_number_are_refused_with_the_setting_that_takes_them(
    make: Make, tmp_path: Path
) -> None:
    pairs = [(f"this is sentence {number}", f"das ist der Satz {number}") for number in range(300)]
    corpus = CorpusConfig(train=write_pairs(tmp_path, "alike", pairs))
    with pytest.raises(UserError, match=r"leaked_near \d+; they differ .* which corpus\.leaks=source allows"):
        shard(make("shards", corpus=corpus))
    assert shard(make("shards", corpus=dataclasses.replace(corpus, leaks="source"))).manifest.split("train").records


def test_two_plain_files_are_enough_for_all_three_splits(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    alone = CorpusConfig(name="alone", train=write_pairs(tmp_path, "alone", make_pairs(900, 1)))
    result = shard(make("shards", corpus=alone))
    held_out = [result.manifest.split(split).records for split in ("valid", "test")]
    assert all(20 <= records <= 80 for records in held_out)  # a twentieth
    assert result.manifest.split("train").records == 900 - sum(held_out)
    assert "(as corpus.cut.valid=0.05 corpus.cut.test=0.05 does" in caplog.text
    by_hand = shard(make("by-hand", corpus=dataclasses.replace(alone, cut=CutConfig(valid=0.05, test=0.05))))
    assert [by_hand.manifest.split(split).records for split in ("valid", "test")] == held_out


def test_a_large_corpus_holds_out_no_more_than_a_test_set_has() -> None:
    cut = fill_auto_cut(CorpusConfig(), 10_000_000).cut
    assert (cut.valid, cut.test) == (0.0002, 0.0002)


@pytest.mark.parametrize(
    ("cut", "splits"), [(CutConfig(valid=0.1), {"train", "valid"}), (CutConfig(valid=0, test=0), {"train"})]
)
def test_a_fraction_that_was_set_is_all_that_is_cut_and_what_is_missing_is_said(
    make: Make, tmp_path: Path, cut: CutConfig, splits: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    alone = CorpusConfig(name="alone", train=write_pairs(tmp_path, "alone", make_pairs(300, 1)), cut=cut)
    paths = PathsConfig(shards=str(tmp_path / "shards"), runs=str(tmp_path / "runs"))
    config = make("shards", corpus=alone, paths=paths, tracking=TrackingConfig(offline=True))
    assert task(config) == 0
    out = capsys.readouterr().out
    for split in ("valid", "test"):
        assert (f"no {split} split: " in out) is (split not in splits)
        assert (f"corpus.{split}.source and .target, or corpus.cut.{split}=0.02" in out) is (split not in splits)
    with pytest.raises(UserError, match=f"no {'test' if 'valid' in splits else 'valid'} split: "):
        TRANSLATION.training.validate(config)


def test_a_corpus_with_its_own_held_out_files_is_what_it_was_before_there_was_a_cut_by_default(make: Make) -> None:
    cut = shard(make("shards")).manifest.config["corpus"]["cut"]
    assert (cut["valid"], cut["test"]) == (0.0, 0.0)


def test_many_leaks_are_said_and_counted_in_the_manifest(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train, test = make_pairs(400, 1), make_pairs(60, 3)
    again = [(f"{source} said", target.upper()) for source, target in test]  # the target, in capitals
    corpus = CorpusConfig(
        name="leaky", train=write_pairs(tmp_path, "leaky", train + again), test=write_pairs(tmp_path, "test", test)
    )
    result = shard(make("shards", corpus=corpus))
    assert result.manifest.dropped["train"] == {"leaked_target": 60}
    assert "60 training pairs (13 %) say on a side what a held-out pair says" in caplog.text
    caplog.clear()
    spared = shard(make("spared", corpus=dataclasses.replace(corpus, leaks="source")))
    assert spared.manifest.split("train").records == 460
    assert "say on a side" not in caplog.text


def test_a_gate_is_a_split_like_the_others(make: Make, tmp_path: Path) -> None:
    corpus = CorpusConfig(
        name="gated",
        train=write_pairs(tmp_path, "train", make_pairs(900, 1)),
        cut=CutConfig(valid=0.05, test=0.05, gate=0.1),
    )
    manifest = shard(make("shards", corpus=corpus)).manifest
    assert set(manifest.splits) == {"train", "valid", "test", "gate"}
    assert set(manifest.texts) == {"valid", "test", "gate"}
    assert 50 < manifest.split("gate").records < 150
    assert sum(split.records for split in manifest.splits.values()) == 900
