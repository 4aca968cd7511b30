"""Pairs in, log-probabilities out."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.scoring import open_scorer
from dragoman.model.inference.text_scoring import open_text_scorer
from dragoman.services.commands.score import score
from dragoman.services.settings import ScoreConfig

PAIRS = b"the dog\tder hund\na house is old .\tein haus\nja\t\n\tgut !\nwhere is z ?\tzzz\n"


def run(tmp_path: Path, bundle: Path, content: bytes = PAIRS, **settings: Any) -> list[str]:
    (tmp_path / "in.tsv").write_bytes(content)
    config = ScoreConfig(
        **{"bundle": str(bundle), "input": str(tmp_path / "in.tsv"), "output": str(tmp_path / "out"), **settings}
    )
    assert score(config) == 0
    return (tmp_path / "out").read_text(encoding="utf-8").splitlines()


def test_a_pair_in_is_a_number_out_in_order(tmp_path: Path, bundle: Path) -> None:
    scorer = open_scorer(load_bundle(bundle))
    pairs = [line.split("\t") for line in PAIRS.decode().splitlines()]
    alone = [scorer.score([source], [target])[0].log_probability for source, target in pairs]
    for batches in ({}, {"lines": 2, "batch_tokens": 1}):
        assert [float(line) for line in run(tmp_path, bundle, **batches)] == pytest.approx(alone, abs=1e-4)


def test_two_files_are_pairs_too(tmp_path: Path, bundle: Path) -> None:
    columns = [line.split("\t") for line in PAIRS.decode().splitlines()]
    (tmp_path / "a").write_text("".join(f"{source}\n" for source, _ in columns))
    with gzip.open(tmp_path / "b.gz", "wt") as file:
        file.write("".join(f"{target}\n" for _, target in columns))
    files: dict[str, Any] = {"input": None, "source": str(tmp_path / "a"), "target": str(tmp_path / "b.gz")}
    assert run(tmp_path, bundle, **files) == run(tmp_path, bundle)


def test_json_and_each_token(tmp_path: Path, bundle: Path) -> None:
    records = [json.loads(line) for line in run(tmp_path, bundle, format="json", tokens=True)]
    assert [record["line"] for record in records] == list(range(5))
    for record in records:
        each = [one["log_probability"] for one in record["each"]]
        assert record["log_probability"] == pytest.approx(sum(each), abs=1e-4)
        assert record["mean"] == pytest.approx(record["log_probability"] / record["tokens"], abs=1e-5)
        assert len(each) == record["tokens"]
        assert record["each"][-1]["piece"] == "</s>"
    assert records[2]["tokens"] == 1
    assert records[4]["unknown"] == 3
    first, *named = run(tmp_path, bundle, tokens=True)[0].split("\t")
    assert [one.rpartition("=")[0] for one in named] == [*"der hund", "</s>"]
    assert float(first) < 0


def test_as_the_search_scores(tmp_path: Path, bundle: Path) -> None:
    plain, searched = run(tmp_path, bundle), run(tmp_path, bundle, searched=True)
    assert float(searched[0]) > float(plain[0])
    assert searched[4] == "-inf"
    assert json.loads(run(tmp_path, bundle, searched=True, format="json")[4])["log_probability"] is None


def test_a_line_that_is_no_pair_is_named_or_left_empty(tmp_path: Path, bundle: Path) -> None:
    content = b"ja\tgut\nja gut\na\tb\tc\nx\xff\ty\nja\tgut\n"
    with pytest.raises(UserError, match=r"in\.tsv, line 2: 1 columns, not source TAB target \('ja gut'\)"):
        run(tmp_path, bundle, content)
    assert not (tmp_path / "out").exists()
    lines = run(tmp_path, bundle, content, on_error="skip")
    assert [bool(line) for line in lines] == [True, False, False, False, True]
    assert float(lines[0]) == pytest.approx(float(lines[4]), abs=1e-4)
    records = [json.loads(line) for line in run(tmp_path, bundle, content, on_error="skip", format="json")]
    assert records[3] == {"line": 3, "error": "not UTF-8"}


def test_what_is_too_long_is_named_cut_or_left_out(tmp_path: Path, bundle: Path) -> None:
    content = b"ja\tgut\nja\t" + b"gut " * 40 + b"\n"
    with pytest.raises(UserError, match=r"in\.tsv, line 2: the target has 160 tokens, more than the model's 64"):
        run(tmp_path, bundle, content)
    record = json.loads(run(tmp_path, bundle, content, too_long="truncate", format="json")[1])
    assert (record["truncated"], record["tokens"]) == (True, 64)
    assert run(tmp_path, bundle, content, too_long="skip")[1] == ""


def test_mistakes_are_named(tmp_path: Path, bundle: Path, vectors: Path) -> None:
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "three").write_text("a\nb\nc\n")
    two, three = str(tmp_path / "two"), str(tmp_path / "three")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(PAIRS * 100)[:-20])
    mistakes: list[tuple[Path, dict[str, Any], str]] = [
        (bundle, {"input": None, "source": two, "target": three}, r"two has 2 lines, .*three has more"),
        (bundle, {"input": None, "source": two}, r"score\.source: .* needs the other side too: set score\.target"),
        (bundle, {"source": two, "target": three}, "not both"),
        (bundle, {"input": None, "source": two, "target": "none"}, r"score\.target: none cannot be read"),
        (vectors, {}, "holds word vectors"),
        (bundle, {"input": str(tmp_path / "cut.gz")}, r"cut\.gz: the gzip file is truncated"),
    ]
    for model, settings, message in mistakes:
        with pytest.raises(UserError, match=message):
            run(tmp_path, model, **settings)


def test_a_language_model_scores_texts(tmp_path: Path, language_bundle: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = ["the dog", "", "\t", "a house is old .", "zzz"]
    scorer = open_text_scorer(load_text_bundle(language_bundle))
    alone = [scorer.score([text])[0] for text in texts]
    content = "".join(f"{text}\n" for text in texts).encode()
    caplog.set_level("INFO")
    found = [float(line) for line in run(tmp_path, language_bundle, content)]
    assert found == pytest.approx([one.log_probability for one in alone], abs=1e-4)
    assert "5 texts, 31 tokens (3 unknown): log-probability" in caplog.text
    records = [json.loads(line) for line in run(tmp_path, language_bundle, content, format="json", tokens=True)]
    assert [record["tokens"] for record in records] == [8, 1, 1, 17, 4]
    assert [one["piece"] for one in records[0]["each"]] == [*"the dog", "</s>"]
    broken = run(tmp_path, language_bundle, b"ja\n\xff\nja\n", on_error="skip")
    assert float(broken[0]) == pytest.approx(float(broken[2]), abs=1e-4)  # one line, in two rows of a batch
    assert broken[1] == ""


def test_a_language_model_has_neither_sources_nor_a_search(tmp_path: Path, language_bundle: Path) -> None:
    settings: list[dict[str, Any]] = [{"searched": True}, {"input": None, "source": "a", "target": "b"}]
    for one in settings:
        with pytest.raises(UserError, match=r"score\.(searched: True|source: a) is for translation models; .*language"):
            run(tmp_path, language_bundle, **one)
    with pytest.raises(UserError, match=r"input: none cannot be read"):
        run(tmp_path, language_bundle, input="none")
