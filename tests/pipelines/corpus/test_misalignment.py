"""The misalignment detector: finds what is there, on real text, and stays silent where nothing is."""

import gzip
import random
from pathlib import Path

import numpy as np
import pytest

from dragoman.pipelines.corpus.clean.misalignment import Misaligned, suspects
from dragoman.pipelines.corpus.clean.misalignment_scan import misaligned_runs, prepare_detector, scan_block
from dragoman.pipelines.corpus.clean.similarity import features
from dragoman.pipelines.corpus.clean.task import CleaningTask, clean_block
from dragoman.pipelines.corpus.read import staging
from dragoman.pipelines.corpus.read.built_in import phrasebook
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.read.staging import blocks_of, stage, staging_tasks
from dragoman.pipelines.corpus.settings import CleanConfig


def _runs(folder: Path, source: list[str], target: list[str]) -> list[Misaligned]:
    """What the detector finds in a Moses pair of these lines."""
    files = (folder / "a", folder / "b")
    for path, lines in zip(files, (source, target), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    corpus = Source("train-0", "train", "moses", files, ("", ""))
    clean, scans = folder / "clean", folder / "scans"
    clean.mkdir()
    scans.mkdir()
    for task in staging_tasks([corpus], folder):
        stage(task)
    blocks = blocks_of([corpus], folder)
    for block in blocks:
        clean_block(CleaningTask(block, CleanConfig(), "raise", clean))
    detector = prepare_detector(blocks, clean, folder / "guard.npz")
    if detector is None:
        return []
    for block in blocks:
        scan_block(clean, folder / "guard.npz", scans, block)
    return misaligned_runs(detector, [corpus], blocks, clean, scans).get("train-0", [])


def _lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().replace("\r\n", "\n").split("\n")[:-1]


def test_the_misaligned_block_of_tico19_is_found_and_no_line_beside_it(corpora: Path, tmp_path: Path) -> None:
    folder = corpora / "tico19"
    found = _runs(tmp_path, _lines(folder / "tico19-test.eng.gz"), _lines(folder / "tico19-test.fra.gz"))
    assert found == [Misaligned(424, 697)]  # counted from 0; no shift: the French is out of order, not merely late


@pytest.mark.parametrize("begin", [0, 1200])
def test_the_edges_of_a_shuffled_block_are_found_to_a_line_beside_free_translations(tmp_path: Path, begin: int) -> None:
    lines = phrasebook()["train"][begin : begin + 1200]
    target = [line.german for line in lines]
    target[600:660] = target[610:660] + target[600:610]
    for free in (599, 660):
        target[free] = " ".join(target[free].split()[:-3:-1])  # its last two words
    (run,) = _runs(tmp_path, [line.english for line in lines], target)
    assert 599 <= run.first <= 602
    assert 657 <= run.last <= 660


REAL = [("multi30k", f"{name}.en.gz", f"{name}.{code}.gz") for name in ("train", "val") for code in ("de", "fr", "cs")]
REAL += [("wmt-news/eng-deu", f"newstest{year}.eng.gz", f"newstest{year}.deu.gz") for year in (2009, 2012, 2014)]
REAL += [("wmt-news/eng-fra", f"newstest{year}.eng.gz", f"newstest{year}.fra.gz") for year in (2010, 2013)]
REAL += [("wmt-news/eng-deu", "newssyscomb2009.eng.gz", "newssyscomb2009.deu.gz")]
REAL += [("wmt-10k", "src-train.txt.gz", "tgt-train.txt.gz"), ("enja", "train.en.gz", "train.ja.gz")]
REAL += [("ntrex", "newstest2019-src.eng.txt.gz", "newstest2019-ref.ces.txt.gz")]


@pytest.mark.parametrize(("folder", "left", "right"), REAL)
def test_no_alarm_on_aligned_corpora(corpora: Path, tmp_path: Path, folder: str, left: str, right: str) -> None:
    assert _runs(tmp_path, _lines(corpora / folder / left), _lines(corpora / folder / right)) == []


@pytest.mark.parametrize("name", ["fra", "deu"])
def test_no_alarm_on_tatoeba(corpora: Path, tmp_path: Path, name: str) -> None:
    rows = [line.split("\t") for line in _lines(corpora / "tatoeba" / f"{name}.txt.gz")[:60_000]]
    assert _runs(tmp_path, [row[0] for row in rows], [row[1] for row in rows]) == []


@pytest.fixture(scope="module", params=["phrasebook", "multi30k"])
def aligned(request: pytest.FixtureRequest) -> tuple[list[str], list[str]]:
    """6,000 English lines and their German ones."""
    if request.param == "phrasebook":
        pairs = phrasebook()["train"][:6000]
        return [pair.english for pair in pairs], [pair.german for pair in pairs]
    folder = request.getfixturevalue("corpora") / "multi30k"
    english, german = (_lines(folder / f"train.{code}.gz")[:6000] for code in ("en", "de"))
    return english, german


Lines = tuple[list[str], list[str]]


def test_no_alarm_where_all_is_in_place(aligned: Lines, tmp_path: Path) -> None:
    assert _runs(tmp_path, *aligned) == []


def test_a_slip_is_found_with_its_shift(aligned: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "BLOCK_LINES", 1000)
    source, target = aligned
    target = [*target[:2500], "Ein Satz zu viel.", *target[2500:2900], *target[2901:]]
    (run,) = _runs(tmp_path, source, target)
    assert run.shift == 1
    assert abs(run.first - 2500) <= 4
    assert abs(run.last - 2900) <= 4


def test_a_shuffled_block_is_found(aligned: Lines, tmp_path: Path) -> None:
    source, target = aligned
    block = target[3000:3080]
    random.Random(1).shuffle(block)
    (run,) = _runs(tmp_path, source, target[:3000] + block + target[3080:])
    assert abs(run.first - 3000) <= 4
    assert abs(run.last - 3079) <= 4


def test_a_corpus_without_any_relation_is_reported_whole(aligned: Lines, tmp_path: Path) -> None:
    source, target = aligned
    (run,) = _runs(tmp_path, source, random.Random(1).sample(target, len(target)))
    assert (run.first, run.last) == (0, 5999)


def test_a_small_corpus_is_left_alone(tmp_path: Path) -> None:
    assert _runs(tmp_path, ["a b"] * 300, ["x y"] * 300) == []


def test_suspects_are_runs_of_positive_ratios() -> None:
    ratio = np.full(300, -1.0, np.float32)
    ratio[100:140] = 1.0
    numbers = np.arange(300)
    blocks = [
        np.rec.fromarrays([numbers[first : first + 50], ratio[first : first + 50]]) for first in range(0, 300, 50)
    ]
    assert list(suspects(blocks)) == [(100, 139)]
    ratio[280:] = 1.0  # up to the very end
    assert list(suspects([np.rec.fromarrays([numbers, ratio])])) == [(100, 139), (280, 299)]
    assert list(suspects([])) == []


def test_features_count_words_marks_and_length() -> None:
    first, same_words, empty, chinese = features(["The cat, 12!", "cat The", "", "猫在垫子上"])
    assert np.array_equal(first[:128], first[:128].clip(0, 3))
    assert first[:128].sum() == 3  # the, cat, and 12
    assert same_words[:128].sum() == 2
    assert ((first[:128] > 0) >= (same_words[:128] > 0))[same_words[:128] > 0].sum() == 1  # "cat," is another word
    assert empty[:-1].sum() == 0
    assert empty[-1] == pytest.approx(np.log(6.0))
    assert chinese[:128].sum() == 5
