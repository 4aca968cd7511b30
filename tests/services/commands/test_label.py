"""`dragoman classify` and `tag`, and their methods in Python: texts in, labels out; models of something else."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman.model.bundles.labelled import load_label_bundle
from dragoman.model.bundles.network import save_bundle
from dragoman.model.inference.labeller import Labeller
from dragoman.model.networks.heads import TransformerHead, TransformerHeadConfig
from dragoman.model.text.labelled_words import Words
from dragoman.model.text.labels import LabelTokenizer
from dragoman.model.text.tokenizer import TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import train
from dragoman.services.entries import main

LINES = ["the dog sees the man", "a small cat sleeps", "two men see a dog"]
LABELS = {"classes": ["good", "bad", "so so"], "tags": ["noun", "verb", "other"], "numbers": ["1", "2.5", "7"]}


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
    for task, verb in (("classes", "classify"), ("numbers", "classify"), ("tags", "tag")):
        words = [f"label.bundle={bundles[task]}", f"label.input={tmp_path}/in", "label.best=2", "label.lines=2"]
        assert main([verb, *words]) == 0
        shown[task] = capsys.readouterr().out.splitlines()
    assert shown["classes"] == [
        "\t".join(f"{label.label} {label.score:.4f}" for label in row[:2])
        for row in labellers["classes"].classify(LINES)
    ]
    assert shown["numbers"] == [f"{number:g}" for number in labellers["numbers"].numbers(LINES)]
    tagged = labellers["tags"].tag([Words.split(line) for line in LINES])
    assert shown["tags"] == [" ".join(f"{word.word}/{word.tag}" for word in row) for row in tagged]
    for task, verb in (("classes", "classify"), ("tags", "tag")):
        assert main([verb, LINES[0], f"label.bundle={bundles[task]}", "label.format=json"]) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["text"] == LINES[0]
        (rows,) = (record[key] for key in record.keys() - {"text"})
        assert [row.get("word", row.get("label")) for row in rows] == (
            LINES[0].split() if verb == "tag" else [shown["classes"][0].split("\t")[0].rpartition(" ")[0]]
        )


@pytest.mark.parametrize(
    ("verb", "task", "told"),
    [
        ("tag", "classes", "gives classes; write dragoman classify"),
        ("tag", "numbers", "gives numbers; write dragoman classify"),
        ("classify", "tags", "gives tags; write dragoman tag"),
    ],
)
def test_a_model_of_something_else_names_the_verb(
    verb: str, task: str, told: str, bundles: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "a dog", f"label.bundle={bundles[task]}"]) == 2
    assert told in capsys.readouterr().err


def test_python_has_both(bundles: dict[str, Path]) -> None:
    classes, tags = dragoman.load(bundles["classes"]), dragoman.load(bundles["tags"])
    rows = classes.classify(LINES)
    assert [row[0].score for row in rows] == [  # type: ignore[union-attr]  # of several texts
        pytest.approx(row[0].score) for row in Labeller(load_label_bundle(bundles["classes"])).classify(LINES)
    ]
    assert [row.label for row in rows[0]] == [row.label for row in classes.classify(LINES[0])]  # type: ignore[union-attr]  # of one
    assert [word.word for word in tags.tag(LINES[0])] == LINES[0].split()  # type: ignore[union-attr]  # of one text
    with pytest.raises(dragoman.DragomanError, match=r"gives tags: classify is not for it"):
        tags.classify("a dog")
