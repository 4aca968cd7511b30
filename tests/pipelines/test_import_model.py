"""`dragoman import` as a user calls it: a run's bundle that translates, and refusals that leave nothing."""

import logging
from pathlib import Path

import pytest

from dragoman.model.bundles.directory import read_facts
from dragoman.services.cli import main
from tests import huggingface_folders as folders

pytest.importorskip("transformers")


def test_an_imported_model_is_the_bundle_of_a_run_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.chdir(tmp_path)
    folders.marian(tmp_path / "given" / "opus-mt-en-de")
    assert main(["import", "given/opus-mt-en-de", "registry.register=false", "tracking.offline=true"]) == 0
    facts = read_facts(tmp_path / "artifacts" / "runs" / "opus-mt-en-de" / "bundle")
    assert (facts["pair"], facts["imported"]["license"]) == ("en-de", "apache-2.0")
    assert "tokenizer.same_as=opus-mt-en-de ..., then: dragoman train train.init_from=opus-mt-en-de" in caplog.text
    assert main(["import", "given/opus-mt-en-de", "registry.register=false", "tracking.offline=true"]) == 0, (
        "again replaces it"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the model: dragoman import FOLDER"),
        (["nowhere"], "nowhere: neither a folder nor a file"),
        (["given"], "does not say which languages it translates"),
        (["given", "pair=en-de"], "model.safetensors is missing"),
        (["encoder"], "encoder: reads texts of one language; give it, such as pair=en"),
        (["encoder", "pair=en-de"], "encoder: reads texts of one language; give it, such as pair=en"),
        (["given", "imports.prefx=a"], "prefx"),
        (["v.txt"], "words of one language; give it, such as pair=en"),
        (["given", "pair=en-de", "name=trained"], "there is a run of this name"),
    ],
)
def test_refusals_are_one_line_with_exit_code_2_and_leave_nothing(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "config.json").write_text('{"model_type": "marian"}')
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "v.txt").write_text("dog 1 2\n")
    (tmp_path / "artifacts" / "runs" / "trained").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    assert main(["import", *words]) == 2
    told = capsys.readouterr().err
    assert message in told and len(told.strip().splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_another_pair_replaces_no_import_and_an_import_is_inspected_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folders.marian(tmp_path / "opus-mt-en-de")  # beside the runs: a bare name is a run's
    words = ["import", "opus-mt-en-de", "registry.register=false", "tracking.offline=true"]
    assert main(words) == 0
    assert main([*words, "pair=de-en", "name=other"]) == 2
    assert "the model's tokenizer_config.json says en-de" in capsys.readouterr().err
    (tmp_path / "opus-mt-en-de" / "tokenizer_config.json").unlink()
    assert main([*words, "pair=de-en"]) == 2
    assert "is of en-de, and pair is de-en; choose another name=" in capsys.readouterr().err
    assert main(["inspect", "opus-mt-en-de"]) == 0
    assert main(["verify", "opus-mt-en-de"]) == 2
    assert "an import, which has no steps" in capsys.readouterr().err
