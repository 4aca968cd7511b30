"""Further ways to change a run, by somebody who keeps its digests and chains whole as far as the folder allows."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from dragoman.model.bundles.ctranslate2 import export
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.files import file_sha256
from dragoman.model.runs import journal, paths
from dragoman.model.text.hashed_texts import HashedTexts
from dragoman.pipelines.evaluation.held_out import held_out_lines
from dragoman.pipelines.evaluation.metrics import score

SPLIT = "test"


def change(path: Path, edit: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def forge(path: Path) -> None:
    """Other weights in the place of the file's; a file of its own, not the other name of a hard link."""
    tensors = load_file(path)
    path.unlink()
    save_file({name: value + 0.01 for name, value in tensors.items()}, path)


def change_evaluation(run: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change the evaluation, and its line in the chain."""
    path = run / f"evaluation.{SPLIT}.json"
    change(path, edit)
    (line,) = journal.lines(run / paths.EVALUATIONS)
    (run / paths.EVALUATIONS).write_text(json.dumps({**line, "sha256": file_sha256(path)}) + "\n")


def change_bundle(run: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change what the bundle says, and the digests of its files."""

    def describe(facts: dict[str, Any]) -> None:
        edit(facts)
        for name in facts["files"]:
            path = run / "bundle" / name
            facts["files"][name] = {"sha256": file_sha256(path), "bytes": path.stat().st_size}

    change(run / "bundle" / "config.json", describe)


def references_as_translations(run: Path, shards: Path) -> None:
    """The references are the hypotheses: BLEU 100, and whatever is computed from the texts agrees."""
    texts = run / f"hypotheses.{SPLIT}.de.txt"
    references = held_out_lines(shards, SPLIT, "de", 20)
    texts.write_text("".join(f"{line}\n" for line in references))
    change_evaluation(run, lambda record: record.update(scores=asdict(score(references, references, "de"))))


def nobodys_weights(run: Path, shards: Path) -> None:
    """Other weights in the bundle, which says that they are from a step of which nothing is left."""
    forge(run / "bundle" / "model.safetensors")
    change_bundle(run, lambda facts: facts["weights"].update(steps=[35], sha256=["0" * 64]))


def fewer_digests(run: Path, shards: Path) -> None:
    """The bundle names a digest less than it has steps, and so nobody compares the average."""
    forge(run / "bundle" / "model.safetensors")
    change_bundle(run, lambda facts: facts["weights"].update(steps=[39, 40], sha256=facts["weights"]["sha256"][1:]))


def served_by_others(run: Path, shards: Path) -> None:
    """The export that serves is another network's than the weights."""
    bundle = load_bundle(run / "bundle")
    network = bundle.network
    for tensor in network.parameters():
        tensor.data.neg_()
    shutil.rmtree(run / "bundle" / "ct2")
    export(network, run / "bundle" / "ct2", *bundle.tokens())
    change_bundle(run, lambda facts: None)


def of_another_set(run: Path, shards: Path) -> None:
    """Scores that are said to be of another set, whose references are out of sight."""

    def edit(record: dict[str, Any]) -> None:
        record["scores"]["bleu"] = 99.0
        record["manifest_hash"] = "0" * 64

    change_evaluation(run, edit)


def some_references_as_translations(run: Path, shards: Path) -> None:
    """A third of the translations are the references, those of the longest sentences; all scores fit."""
    texts = run / f"hypotheses.{SPLIT}.de.txt"
    references, ours = held_out_lines(shards, SPLIT, "de", 20), texts.read_text().split("\n")[:-1]
    for row in sorted(range(20), key=lambda row: -len(references[row]))[:6]:
        ours[row] = references[row]
    texts.write_text("".join(f"{line}\n" for line in ours))
    change_evaluation(run, lambda record: record.update(scores=asdict(score(ours, references, "de"))))


def other_momenta(run: Path, shards: Path) -> None:
    """The optimizer's state, which no weights show, and its digest in the manifest."""
    path = run / "checkpoints" / "step-00000040" / "optimizer.safetensors"
    forge(path)
    digest = file_sha256(path)
    change(path.with_name("manifest.json"), lambda manifest: manifest["files"].update({path.name: digest}))


def unsaved_beginning(run: Path, shards: Path) -> None:
    """The first checkpoint's optimizer is another, no line says which it was, and the later lines fit each other."""
    path = run / "checkpoints" / "step-00000010" / "optimizer.safetensors"
    forge(path)
    digest = file_sha256(path)
    change(path.with_name("manifest.json"), lambda manifest: manifest["files"].update({path.name: digest}))
    _, *later = journal.lines(run / paths.SAVED)
    (run / paths.SAVED).unlink()
    for line in later:
        journal.append(run, paths.SAVED, {key: value for key, value in line.items() if key != journal.BEFORE})


def older_beginning(run: Path, shards: Path) -> None:
    """The same, of a run that says it comes from before there were such lines, with all heads made to fit."""
    unsaved_beginning(run, shards)
    for path in sorted((run / "checkpoints").glob("step-*")):
        change(path / "state.json", lambda state: state["records"].pop("saved"))
        digest = file_sha256(path / "state.json")
        change(path / "manifest.json", lambda manifest, digest=digest: manifest["files"].update({"state.json": digest}))
    steps = {int(path.name[5:]): path / "manifest.json" for path in (run / "checkpoints").glob("step-*")}
    later = [line["step"] for line in journal.lines(run / paths.SAVED)]
    (run / paths.SAVED).unlink()
    for step in later:
        journal.append(run, paths.SAVED, {"step": step, "manifest": file_sha256(steps[step])})
    head = journal.head(run, paths.SAVED)
    change_bundle(run, lambda facts: facts["records"].update(saved=head))
    change_evaluation(run, lambda record: record["run_records"].update(saved=head))


def forgets_what_it_learned(run: Path, shards: Path) -> None:
    """The bundle knows no training texts, so no gate was among them."""
    HashedTexts.of(()).write(run / "bundle" / paths.TRAINING)
    change_bundle(run, lambda facts: None)


def other_precision(run: Path, shards: Path) -> None:
    """Trained in another number format than it says."""
    (run / "precision.json").write_text(json.dumps({"precision": "bf16", "because": "it pays"}))


FURTHER: dict[str, tuple[Callable[[Path, Path], None], str, str]] = {
    "references as translations": (references_as_translations, "scores", "is not the bundle's: "),
    "some references": (some_references_as_translations, "scores", "(6 of 20 come out otherwise)"),
    "momenta": (other_momenta, "records", "is not the checkpoint that was saved; saved.jsonl knows another"),
    "unsaved": (unsaved_beginning, "records", "was made from other records than saved.jsonl holds"),
    "older": (older_beginning, "records", "is not the checkpoint that was saved; saved.jsonl knows another"),
    "forgets what it learned": (forgets_what_it_learned, "texts", "texts of the shards"),
    "nobody's weights": (nobodys_weights, "bundle", "made from weights of step 35, which the run has not got"),
    "fewer digests": (fewer_digests, "bundle", "names 2 steps and 1 digests of their weights"),
    "served by others": (
        served_by_others, "scores", "its export for ctranslate2 translates otherwise than its weights"
    ),
    "better scores": (  # the bundle's own, which the registry and the cards show
        lambda run, shards: change_bundle(run, lambda facts: facts["scores"][SPLIT].update(bleu=99.0)),
        "scores",
        "its scores on test are those of no evaluation of the run",
    ),
    "unopened": (  # the test set was never opened, says the run
        lambda run, shards: (run / "openings.jsonl").unlink(),
        "scores",
        "test was scored 1 times, and openings.jsonl knows of 0 openings of it",
    ),
    "other precision": (other_precision, "records", "precision.json: is not what the run's last start began from"),
    "another set": (of_another_set, "scores", "(manifest 000000000000)"),
}  # fmt: skip
