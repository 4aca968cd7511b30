"""`dragoman predict` and its method in Python: labels, masks and next tokens; models of something else."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman.model.bundles.labelled import load_label_bundle
from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.bundles.network import save_bundle
from dragoman.model.decoding.fill_mask import fill_masks
from dragoman.model.decoding.likely import likely_path
from dragoman.model.errors import UserError
from dragoman.model.inference.labeller import Labeller
from dragoman.model.networks.heads import TransformerHead, TransformerHeadConfig
from dragoman.model.text.labelled_words import Words
from dragoman.model.text.labels import LabelTokenizer
from dragoman.model.text.tokenizer import TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import train
from dragoman.services.commands.predict import predict
from dragoman.services.entries import main
from dragoman.services.settings import PredictConfig

LINES = ["the dog sees the man", "a small cat sleeps", "two men see a dog"]
LABELS = {"classes": ["good", "bad", "so so"], "tags": ["noun", "verb", "other"]}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Task -> the bundle of a network with random weights."""
    folder = tmp_path_factory.mktemp("labels")
    tokenizer = train(TokenizerConfig(vocabulary=60), LINES)
    for task, texts in LABELS.items():
        labels = LabelTokenizer.of(task, texts)  # type: ignore[arg-type]  # one of its literals
        settings: dict[str, Any] = {"width": 16, "heads": 2, "feed_forward": 16, "layers": 1, "head": task}
        config = TransformerHeadConfig(**settings, max_positions=24)
        torch.manual_seed(1)
        network = TransformerHead(config, tokenizer.vocabulary, labels.vocabulary)
        pair = TokenizerPair(tokenizer, labels)
        save_bundle(folder / task, network=network, config=config, tokenizers=pair, facts={"pair": "en"})
    return {task: folder / task for task in LABELS}


def test_each_task_has_its_line_and_its_record(
    bundles: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("\n".join(LINES) + "\n")
    labellers = {task: Labeller(load_label_bundle(folder)) for task, folder in bundles.items()}
    shown: dict[str, list[str]] = {}
    for task, bundle in bundles.items():
        words = [f"bundle={bundle}", f"input={tmp_path}/in", "predict.best=2"]
        assert main(["predict", *words]) == 0
        shown[task] = capsys.readouterr().out.splitlines()
    assert shown["classes"] == [
        "\t".join(f"{label.label} {label.score:.4f}" for label in row[:2])
        for row in labellers["classes"].classify(LINES)
    ]
    tagged = labellers["tags"].tag([Words.split(line) for line in LINES])
    assert shown["tags"] == [" ".join(f"{word.word}/{word.tag}" for word in row) for row in tagged]
    for task in ("classes", "tags"):
        assert main(["predict", LINES[0], f"bundle={bundles[task]}", "format=json"]) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["text"] == LINES[0]
        (rows,) = (record[key] for key in record.keys() - {"text"})
        assert [row.get("word", row.get("label")) for row in rows] == (
            LINES[0].split() if task == "tags" else [shown["classes"][0].split("\t")[0].rpartition(" ")[0]]
        )


def test_the_next_tokens_are_printed_step_by_step_and_drawn(
    tmp_path: Path, language_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "next.png"
    words = [f"bundle={language_bundle}", "predict.best=3", "predict.steps=2", f"predict.picture={picture}"]
    assert main(["predict", "the", "dog", *words]) == 0
    shown = capsys.readouterr().out.splitlines()
    loaded = load_text_bundle(language_bundle)
    steps = likely_path(loaded.language_network, loaded.tokenizer, "the dog", 3, 2)
    assert shown[0] == "the dog"
    assert f"{steps[0].predictions[0].probability:6.4f}" in shown[1]
    assert shown[-1] == f"likeliest: {steps[-1].text}"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_each_mask_of_each_line_has_its_tokens(
    masked_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["The [MASK] sees a <mask>", "[MASK]"]
    (tmp_path / "in").write_text("\n".join(lines))
    config = PredictConfig(bundle=str(masked_bundle), input=str(tmp_path / "in"), best=4, format="json")
    assert predict(config) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    loaded = load_text_bundle(masked_bundle)
    (expected,) = fill_masks(loaded.network, loaded.tokenizer, ["The <mask> sees a <mask>"], 4)
    assert first["text"] == expected.text
    assert [[token["piece"] for token in step["tokens"]] for step in first["steps"]] == [
        [prediction.piece for prediction in predictions] for predictions in expected.predictions
    ]
    assert [step["text"] for step in first["steps"]] == ["The [1] sees a [MASK]", "The [MASK] sees a [2]"]
    assert [step["text"] for step in second["steps"]] == ["[1]"]


@pytest.mark.parametrize(
    ("model", "text", "changes", "message"),
    [
        ("masked", "The dog barks.", {}, r"'The dog barks.' has no \[MASK\]; write one for each token to guess"),
        ("masked", "a " * 40 + "[MASK]", {}, "the network has 32 positions; shorten it"),
        ("language", "The", {"picture": "a.gif"}, "predict.picture: a.gif: unknown kind of file"),
        ("language", "The", {"picture": "nowhere/a.png"}, "no such folder"),
        ("language", None, {"picture": "a.png"}, "predict.picture: shows one text"),
        ("translation", "The", {}, "holds a translation model, which predicts nothing of a text: translate with it"),
    ],
)
def test_mistakes_are_named(
    model: str, text: str | None, changes: dict[str, Any], message: str,
    language_bundle: Path, masked_bundle: Path, bundle: Path,
) -> None:  # fmt: skip
    folders = {"language": language_bundle, "masked": masked_bundle, "translation": bundle}
    with pytest.raises(UserError, match=message):
        predict(PredictConfig(bundle=str(folders[model]), **changes), text)


def test_python_predicts_with_each_kind(bundles: dict[str, Path], masked_bundle: Path, bundle: Path) -> None:
    classes, tags = dragoman.load(bundles["classes"]), dragoman.load(bundles["tags"])
    rows = classes.predict(LINES)
    assert [row[0].score for row in rows] == [
        pytest.approx(row[0].score) for row in Labeller(load_label_bundle(bundles["classes"])).classify(LINES)
    ]
    assert [row.label for row in rows[0]] == [row.label for row in classes.predict(LINES[0])]
    assert [word.word for word in tags.predict(LINES[0])] == LINES[0].split()
    assert [len(step.predictions) for step in dragoman.load(masked_bundle).predict("a [MASK]", best=3).steps] == [3]
    with pytest.raises(dragoman.DragomanError, match="predict is not for it; it has translate, embed"):
        dragoman.load(bundle).predict("a dog")
