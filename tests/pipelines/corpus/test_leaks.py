"""The leak guard: what a held-out pair says, in either language, is not trained on."""

import gzip
import random
from collections import Counter
from pathlib import Path

import pytest

from dragoman.model.text.text_keys import folded_keys
from dragoman.pipelines.corpus.plan import plan as plan_module
from dragoman.pipelines.corpus.plan.plan import make_plan
from dragoman.pipelines.corpus.read import staging
from dragoman.pipelines.corpus.settings import CorpusConfig, CutConfig
from tests.pipelines.corpus.planned import Pairs, cleaned_blocks, kept_pairs


def plan(
    folder: Path, splits: dict[str, Pairs], config: CorpusConfig
) -> tuple[dict[str, Pairs], dict[str, Counter[str]]]:
    """Split -> the pairs that it keeps, and split -> rule -> pairs dropped."""
    blocks, clean = cleaned_blocks(folder, splits)
    made = make_plan(blocks, clean, folder, config, 1)
    kept = {split: kept_pairs(clean, made, split) for split in ("train", "valid", "test", "gate")}
    return kept, {split: Counter(rules) for split, rules in made.dropped.items()}


TEST = [("A dog runs.", "Ein Hund läuft."), ("Tom has 3 cats.", "Tom hat 3 Katzen."), ("!", "?")]
TRAIN = [
    ("The dog is running.", "ein hund LÄUFT."),  # the target
    ("Ein Hund läuft.", "Un chien court."),  # the other direction
    ("Der Hund rennt.", "A dog runs."),
    ("tom has 12 cats", "Tom besitzt zwölf Katzen."),  # a near-copy by number and punctuation
    ("Thomas owns cats.", "Tom hat 3 Katzen!"),
    ("A dog, runs", "Es läuft ein Hund."),
    ("Tom has cats.", "Tom hat Katzen."),  # no number is not another number
    ("...", "!!!"),  # without letters nothing is a near-copy
    ("A cat runs.", "Eine Katze läuft."),
]


def test_both_sides_both_directions_and_near_copies_are_counted_by_rule(tmp_path: Path) -> None:
    kept, dropped = plan(tmp_path, {"train": TRAIN, "test": TEST}, CorpusConfig())
    assert kept["train"] == TRAIN[6:]
    assert kept["test"] == TEST
    assert dropped["train"] == {"leaked_target": 1, "leaked_reversed": 2, "leaked_near": 3}
    kept, dropped = plan(tmp_path / "source", {"train": TRAIN, "test": TEST}, CorpusConfig(leaks="source"))
    assert (kept["train"], dropped["train"]) == (TRAIN, {})


def test_a_given_validation_set_is_guarded_by_sources_unless_asked_for_more(tmp_path: Path) -> None:
    splits = {"train": [*TRAIN, TEST[0]], "valid": TEST}
    assert plan(tmp_path / "auto", splits, CorpusConfig())[1]["train"] == {"leaked": 1}
    dropped = plan(tmp_path / "near", splits, CorpusConfig(leaks="near"))[1]["train"]
    assert dropped == {"leaked": 1, "leaked_target": 1, "leaked_reversed": 2, "leaked_near": 3}


def test_validation_and_gate_do_not_say_what_the_test_set_says(tmp_path: Path) -> None:
    splits = {"train": [("x y", "z y")], "valid": TRAIN[:1], "test": TEST, "gate": [*TRAIN[1:2], ("own", "eigen")]}
    kept, dropped = plan(tmp_path, splits, CorpusConfig(leaks="near"))
    assert (kept["valid"], kept["gate"], kept["test"]) == ([], [("own", "eigen")], TEST)
    assert (dropped["valid"], dropped["gate"]) == ({"leaked_target": 1}, {"leaked_reversed": 1})


def shared(text: str) -> str:
    """What near-copies have in common, said another way than in the program."""
    letters = "".join(each if each.isalpha() else "0" if each.isdigit() else "" for each in text.casefold())
    while "00" in letters:
        letters = letters.replace("00", "0")
    return letters


@pytest.mark.parametrize(("block_lines", "partition"), [(64, 1 << 18), (5000, 40)])
def test_splits_cut_out_of_one_corpus_share_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_lines: int, partition: int
) -> None:
    monkeypatch.setattr(staging, "BLOCK_LINES", block_lines)
    monkeypatch.setattr(plan_module, "_PARTITION_PAIRS", partition)
    rng = random.Random(1)
    marks = ["", ".", "!", " ...", ", 7"]
    word = str.maketrans("0123456789", "ghijklmnop")

    def text(side: str) -> str:
        return f"{side} {rng.randrange(8000)} {rng.choice(['a', 'A'])}".translate(word) + rng.choice(marks)

    texts: Pairs = [(text("so"), text("ta")) for _ in range(3000)]
    config = CorpusConfig(cut=CutConfig(valid=0.05, test=0.05, gate=0.05))
    kept, dropped = plan(tmp_path, {"train": texts}, config)
    said = {split: {shared(text) for pair in rows for text in pair} for split, rows in kept.items()}
    assert all(len(rows) > 80 for rows in kept.values())
    for one, others in (("train", ("valid", "gate", "test")), ("valid", ("gate", "test")), ("gate", ("test",))):
        for other in others:
            assert not said[one] & said[other]
    assert dropped["train"]["leaked_target"] > 0
    assert dropped["train"]["leaked_near"] > 0
    source_alone, _ = plan(tmp_path / "source", {"train": texts}, CorpusConfig(cut=config.cut, leaks="source"))
    assert kept["test"] == source_alone["test"], "the guard drops from training, the test set is what it was"


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("Tom's 2 dogs bark!", "toms 12 dogs bark", True),
        ("1,000.50 euros", "3 Euros", True),
        ("well-known", "well known", True),
        ("これ は ペン です 。", "これはペンです。", True),
        ("हिंदी", "हिंद", False),  # vowel signs are marks, and letters' part
        ("résumé", "resume", False),
        ("2 dogs", "dogs", False),
    ],
)
def test_near_copies_differ_by_case_punctuation_blanks_and_numbers_alone(one: str, other: str, near: bool) -> None:
    keys, near_keys = folded_keys(f"{one}\n{other}".casefold())
    assert keys[0] != keys[1]
    assert bool(near_keys[0] == near_keys[1]) is near


def test_texts_without_letters_are_near_copies_of_nothing() -> None:
    keys, near_keys = folded_keys("\n?!\n12\n3 - 4\na")
    assert len(set(keys.tolist())) == 5
    assert near_keys[:4].tolist() == [0, 0, 0, 0]
    assert near_keys[4]


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return file.read().rstrip("\n").split("\n")


def test_multi30k_is_as_clean_as_it_was(tmp_path: Path, corpora: Path) -> None:
    names = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    splits = {
        split: list(zip(*(lines(corpora / "multi30k" / f"{name}.{side}.gz") for side in ("en", "de")), strict=True))
        for split, name in names.items()
    }
    dropped = plan(tmp_path, splits, CorpusConfig())[1]
    assert dropped == {"train": {"duplicate": 3, "leaked": 1, "length_ratio": 2}, "valid": {}, "test": {}}
