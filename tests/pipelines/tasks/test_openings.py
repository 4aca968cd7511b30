"""Openings are counted by sentence: whatever the set is called, in any order, format and split."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.runs import journal, paths
from dragoman.model.text.hashed_texts import HashedTexts
from dragoman.model.text.text_keys import sentence_keys
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.settings import EvaluateConfig
from dragoman.pipelines.tasks import openings
from dragoman.pipelines.tasks.openings import CHOSEN_ON, Checked, Held, Opening, note_opening, open_held
from dragoman.pipelines.tasks.training_texts import overlap
from dragoman.pipelines.tracking.server import TrackingConfig

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
SOURCES = [f"The {a} dogs see {b} cats." for a in NUMBERS for b in NUMBERS]
TARGETS = [f"Die {a} Hunde sehen {b} Katzen." for a in NUMBERS for b in NUMBERS]
WHOLE = Held("test", (SOURCES, TARGETS), "0123456789ab")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    places = PathsConfig(root=str(tmp_path), runs=str(tmp_path / "runs"), shards=str(tmp_path / "shards"))
    return Config(name="run", paths=places, tracking=TrackingConfig(offline=True))


def opened(config: Config, held: Held, run: str = "one") -> Opening:
    return note_opening(config.paths, config.tracking, held, Path(config.paths.runs) / run, run)


AGAIN = {
    "as it was": WHOLE,
    "under another name": Held("news", (SOURCES, TARGETS), "ba9876543210"),
    "as the validation set of other shards": Held("valid", (SOURCES, TARGETS), "ba9876543210"),
    "without its last line": Held("test", (SOURCES[:-1], TARGETS[:-1]), "1"),
    "reordered": Held("test", (SOURCES[::-1], TARGETS[::-1]), "2"),
    "the other way round": Held("test", (TARGETS, SOURCES), "3"),
    "with other references": Held("test", (SOURCES, [f"{line} !" for line in SOURCES]), "4"),
    "in capitals and without stops": Held("test", ([line.upper()[:-1] for line in SOURCES], TARGETS), "5"),
    "one side alone": Held("test", (SOURCES,), "6"),
    "a tenth of it": Held("test", (SOURCES[:10], TARGETS[:10]), "7"),
    "with as many lines more": Held("test", (SOURCES + NUMBERS * 10, TARGETS + NUMBERS * 10), "8"),
}


@pytest.mark.parametrize("held", AGAIN.values(), ids=AGAIN)
def test_the_same_sentences_are_opened_again(held: Held, config: Config) -> None:
    assert str(opened(config, WHOLE)) == "test (set 0123456789ab): opened for the first time"
    second = opened(config, held, "two")
    common = min(len(SOURCES), len(held.sides[0]))
    assert second.count == 2
    assert f"opening 2 of {common:,} of these {len(held.sides[0]):,} sentences; before it" in str(second)


def test_pieces_add_up_to_one_opening_of_the_whole(config: Config) -> None:
    for first in range(0, 100, 10):
        piece = Held("test", (SOURCES[first : first + 10], TARGETS[first : first + 10]), f"{first}")
        assert opened(config, piece).count == 1
    assert opened(config, WHOLE).count == 2


def test_other_sentences_are_opened_for_the_first_time(config: Config) -> None:
    opened(config, WHOLE)
    other = ([f"Nobody saw {line}" for line in SOURCES], [f"Niemand sah {line}" for line in TARGETS])
    assert opened(config, Held("test", other, "9"), "two").count == 1
    other[0][0] = SOURCES[0]
    told = str(opened(config, Held("test", tuple(other), "9"), "three"))
    assert "opening 2 of 100 of these 100 sentences" in told, "the second of these, whatever the first line was"


def test_a_few_sentences_that_sets_share_are_no_opening(config: Config) -> None:
    opened(config, WHOLE)
    sources = [f"Nobody saw {line}" for line in SOURCES * 3]
    sources[0] = SOURCES[0]
    found = opened(config, Held("test", (sources,), "9"), "two")
    assert str(found) == "test (set 9): opened for the first time, but for 1 of its lines"


def test_an_opening_from_before_there_were_hashes_counts_for_the_whole_set(config: Config) -> None:
    line = {"set": WHOLE.digest, "split": "test", "run": "old", "recipe": "", "by": "me", "time": "then"}
    (Path(config.paths.runs) / "old").mkdir(parents=True)
    journal.append(Path(config.paths.runs) / "old", paths.OPENINGS, line)
    assert opened(config, WHOLE).count == 2


@pytest.mark.parametrize("most", [50, 400])
def test_a_tag_of_the_registry_counts_the_lines_that_it_had(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least hashes of a set tell how much of it another set has."""
    keys = WHOLE.keys
    least = HashedTexts.of(keys).keys
    monkeypatch.setattr(openings, "SKETCH", most)
    value = openings.sketch(HashedTexts.of(keys))
    assert value["whole"] == (most > len(least))
    assert openings._sketched(value, False, keys).all()
    other = Held("test", ([f"Nobody saw {line}" for line in SOURCES],), "9").keys
    assert not openings._sketched(value, False, other).any()
    half = np.concatenate([keys[:, :20], other], axis=1)
    assert openings._sketched(value, False, half).sum() <= 20


@pytest.mark.parametrize("name", CHOSEN_ON)
def test_a_test_set_in_the_place_of_one_to_choose_on_is_said(name: str, config: Config) -> None:
    """Named `valid` or `gate`, as a set of files or in other shards, also as its first lines."""
    own = Held(name, ([f"Nobody saw {line}" for line in SOURCES],), "9")
    for _ in range(2):
        assert opened(config, own).chosen_on, "choices are made on a set of their own"
    opened(config, WHOLE)
    part = Held(name, (SOURCES[:50], TARGETS[:50]), "1")
    told = Checked(opened(config, part, "two"), overlap([], part.sides))
    assert not told.opening.chosen_on and "opening 2 of 50 of these 50 sentences" in str(told)
    assert told.counts == {f"{name}_openings": 2}


def test_records_in_several_folders_add_up_and_copies_do_not(config: Config) -> None:
    """A promotion's is beside the run's; a copied run has the same lines."""
    opened(config, WHOLE)
    note_opening(config.paths, config.tracking, WHOLE, Path(config.paths.root) / "promotions" / "model", "one")
    shutil.copytree(Path(config.paths.runs) / "one", Path(config.paths.runs) / "copy")
    assert opened(config, WHOLE, "two").count == 3


def test_a_set_that_was_learned_from_is_refused_before_it_is_counted(config: Config, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    HashedTexts.of([sentence_keys([SOURCES[7].upper(), TARGETS[8]])]).write(tmp_path / "bundle" / paths.TRAINING)
    folder = Path(config.paths.runs) / "one"
    with pytest.raises(UserError, match=r"learned from 2 of its 100 lines \(8, 9\), 2.0%, and at most 0.5%") as problem:
        open_held(config, WHOLE, folder, "one", [tmp_path / "bundle"])
    assert "evaluate.may_know=1 scores it all the same" in str(problem.value)
    assert not (folder / paths.OPENINGS).exists()
    wider = replace(config, evaluate=EvaluateConfig(may_know=0.02))
    told = str(open_held(wider, WHOLE, folder, "one", [tmp_path / "bundle"]))
    assert "training data: 2 of 100 lines learned from (lines 8, 9)" in told


def test_models_without_hashes_have_unknown_training_data(tmp_path: Path) -> None:
    (tmp_path / "imported").mkdir()
    found = overlap([tmp_path / "imported"], [SOURCES])
    assert str(found) == "training data: unknown training data of imported" and found.record()["lines"] == 0
