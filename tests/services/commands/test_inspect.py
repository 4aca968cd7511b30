"""What inspect says of each kind of artefact, and of damage."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.parts import BOTH, FORWARD
from dragoman.model.runs import attempts
from dragoman.model.shards.manifest import Manifest, Split, write_manifest
from dragoman.model.shards.writer import write_shard
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.training import checkpoint
from dragoman.services.commands.inspect import InspectConfig, as_text, contents, inspect, main

WORDS = [("the dog", "der hund"), ("a house", "ja"), ("where", "gut")]


@pytest.fixture
def shards(tmp_path: Path, tokenizers: TokenizerPair) -> Path:
    directory = tmp_path / "shards"
    directory.mkdir()
    tokenizers.save(directory)
    records = [
        (np.asarray(tokenizers.source.encode([a])[0]), np.asarray(tokenizers.target.encode([b])[0])) for a, b in WORDS
    ]
    entry = write_shard(directory, "train", 0, records, 0, 2, "<u2")
    manifest = Manifest("small", ["en", "de"], tokenizers.describe(), "<u2", {"train": Split.of([entry])})
    manifest.sources = [{"name": "a.txt", "lines": 3, "bytes": 30, "sha256": "0" * 64}]
    write_manifest(directory, manifest)
    return directory


@pytest.fixture
def step(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    attempt = attempts.next_attempt(run)
    tensors = {"network": {"weight": torch.zeros(2, 3)}, "optimizer": {"m": torch.zeros(6)}}
    return checkpoint.write(run, 100, attempt, tensors, {"step": 100, "rng": list(range(50))})


def test_shards_show_corpus_tokenizer_splits_and_records(shards: Path) -> None:
    facts = contents(shards)
    assert (facts["kind"], facts["corpus"], facts["splits"]["train"]["records"]) == ("shard directory", "small", 3)
    assert facts["sources"][0]["name"] == "a.txt"
    assert len(facts["manifest_hash"]) == 64
    assert facts["samples"] == [{"source": "the dog", "target": "der hund"}, {"source": "a house", "target": "ja"}]


def test_a_bundle_shows_what_it_was_made_from(bundle: Path) -> None:
    facts = contents(bundle)
    assert (facts["kind"], facts["holds"], facts["architecture"]) == ("bundle", "translation", "transformer")
    assert facts["manifest_hash"] == "ab" * 32
    assert facts["parameters"] > 1000
    assert "model.safetensors" in facts["files"]


def test_word_vectors_show_method_words_and_what_they_were_made_from(vectors: Path) -> None:
    facts = contents(vectors)
    assert (facts["holds"], facts["model"]["name"], facts["table"]["words"]) == ("vectors", "skipgram", 7)
    assert facts["most_frequent"][:2] == ["man 700", "woman 600"]
    assert (facts["manifest_hash"], facts["tensors"]) == ("cd" * 32, {"vectors": "F32 [7, 4]"})


def test_a_checkpoint_and_its_run_are_shown(step: Path) -> None:
    facts = contents(step)
    assert (facts["kind"], facts["step"], facts["attempt"]) == ("checkpoint", 100, 1)
    assert facts["files"]["network.safetensors"] == {"parameters": 6, "tensors": {"weight": "F32 [2, 3]"}}
    run = contents(step.parents[1])
    assert (run["kind"], run["checkpoints"]) == ("run", ["step-00000100"])
    assert contents(step / "network.safetensors")["tensors"] == {"weight": "F32 [2, 3]"}


def test_damage_is_named(step: Path, tmp_path: Path) -> None:
    (step / "network.safetensors").write_bytes(b"\xff" * 20)
    for path, message in (
        (step, "not a safetensors file"),
        (tmp_path / "none", "no such file"),
        (tmp_path, "not a shard"),
    ):
        with pytest.raises(UserError, match=message):
            contents(path)
    (step / "manifest.json").write_text("{")
    with pytest.raises(UserError, match=r"manifest\.json: damaged \(.*line 1"):
        contents(step)


def test_the_report_is_text_or_json(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspect(InspectConfig(format="json"), str(bundle))
    assert json.loads(capsys.readouterr().out)["kind"] == "bundle"
    inspect(InspectConfig(), str(bundle))
    assert "architecture" in capsys.readouterr().out
    nested = {"a": {"b": 1000}, "c": [{"d": 1}], "e": None, "f": True}
    assert as_text(nested) == "a\n  b  1,000\nc\n  - d: 1\ne  -\nf  True"


def test_parameters_are_shown_by_part_with_the_cost_of_a_step(
    language_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(language_bundle), "inspect.parameters=true", "format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    network = load_text_bundle(language_bundle).network
    assert found["parameters"] == network.parameter_count()
    assert {one["part"] for one in found["costs"]} == {"recurrent layers", "unembedding", FORWARD, BOTH}
    assert main([str(language_bundle), "inspect.parameters=true"]) == 0
    assert "formula: V x D" in capsys.readouterr().out


def test_a_run_is_found_by_its_name(language_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(language_bundle, tmp_path / "runs" / "mine" / "bundle")
    assert main(["mine", "inspect.parameters=true", f"paths.runs={tmp_path}/runs"]) == 0
    assert "formula: V x D" in capsys.readouterr().out
    assert main(["other", f"paths.runs={tmp_path}/runs"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_no_path_and_parameters_of_what_has_no_network_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == main([str(tmp_path), "inspect.parameters=true"]) == 2
    said = capsys.readouterr().err
    assert "dragoman inspect PATH" in said and "is no bundle and no run with one" in said
