"""`dragoman verify` beside 22 ways to change a run: each is found; a run that nobody changed is the same."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.files import file_sha256
from dragoman.model.runs import journal, paths
from dragoman.pipelines import entries
from dragoman.pipelines.tasks.beginnings import BEGINNINGS
from tests.pipelines.tasks.forgeries import FURTHER, change, forge

SETTINGS = [
    "corpus.pairs=400",
    "tokenizer.vocabulary=120",
    "model.width=16",
    "model.heads=2",
    "model.feed_forward=16",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "loader.batch_tokens=512",
    "train.precision=fp32",
    "train.max_steps=40",
    "train.checkpoint_every=10",
    "train.evaluate_every=20",
    "train.optimizer.warmup_steps=5",
    "train.keep_checkpoints=9",
    "train.average_last=2",
    "train.average_share=1.0",
    "decode.beam=1",
    "decode.length_penalty=1.0",
    "evaluate.sentences=20",
    "registry.register=false",
    "tracking.offline=true",
    "tracking.system_metrics=false",
    "cluster.backend=local",
]
Verdict = dict[str, tuple[str, str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the one run that all tests here take a copy of."""
    folder = tmp_path_factory.mktemp("home")
    for verb in (["shard"], ["train", "name=one"]):
        assert entries.main([*verb, f"paths.root={folder}", *SETTINGS]) == 0
    return folder


@pytest.fixture
def run(home: Path, tmp_path: Path) -> Path:
    """A copy of the run that may be changed."""
    shutil.copytree(home / "runs" / "one", tmp_path / "runs" / "one")
    return tmp_path / "runs" / "one"


@pytest.fixture
def verify(home: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Verdict]:
    """verify(code, ...) -> what was compared; the verb must end with that exit code."""
    (shards,) = (path.parent for path in (home / "shards").glob("*/manifest.json"))

    def verified(code: int, *words: str) -> Verdict:
        capsys.readouterr()
        found = entries.main(["verify", str(run), f"paths.shards={shards}", "verify.format=json", *words])
        printed = capsys.readouterr()
        assert found == code, printed.out + printed.err
        return {one["what"]: (one["result"], one["detail"]) for one in json.loads(printed.out)["checks"]}

    return verified


def test_a_run_that_nobody_changed_has_no_difference(run: Path, verify: Callable[..., Verdict]) -> None:
    found = verify(0)
    assert {result for result, _ in found.values()} == {"same"}
    assert found["rates"][1] == "40 steps, as run.json's optimizer has them"
    assert re.fullmatch(r"a chain of 42 lines, head [0-9a-f]{12}", found["records"][1])
    facts = json.loads((run / "bundle" / "config.json").read_text())
    assert facts["records"] == journal.heads(run)


def edit_lines(run: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change lines of the journal, and link them again so that the chain is whole in itself."""
    changed, before = [], journal.first_link(run)
    for line in list(journal.lines(run / paths.STEPS)):
        edit(line)
        changed.append({**line, "before": before})
        before = journal.digest(changed[-1])
    (run / paths.STEPS).write_text("".join(json.dumps(line) + "\n" for line in changed))


def edited_checkpoint(run: Path) -> None:
    path = run / "checkpoints" / "step-00000040"
    forge(path / "network.safetensors")
    digest = file_sha256(path / "network.safetensors")
    change(path / "manifest.json", lambda manifest: manifest["files"].update({"network.safetensors": digest}))


def edited_bundle(run: Path) -> None:
    weights = run / "bundle" / "model.safetensors"
    forge(weights)

    def describe(facts: dict[str, Any]) -> None:
        facts["files"]["model.safetensors"] = {"sha256": file_sha256(weights), "bytes": weights.stat().st_size}
        del facts["weights"]

    change(run / "bundle" / "config.json", describe)


def no_digests(run: Path) -> None:
    lines = [
        {k: v for k, v in line.items() if k not in ("batch", "before")} for line in journal.lines(run / paths.STEPS)
    ]
    (run / paths.STEPS).write_text("".join(json.dumps(line) + "\n" for line in lines))


def late_beginning(run: Path) -> None:
    (start,) = journal.lines(run / paths.STARTS)
    (run / paths.STARTS).write_text(json.dumps({**start, "step": 30}) + "\n")


def in_record(edit: Callable[[dict[str, Any]], None], file: str = "run.json") -> Callable[[Path], None]:
    """An attack that edits one of the run's files."""
    return lambda run: change(run / file, edit)


RUN_JSON = "steps.jsonl, line 1: follows another line: run.json was changed"
OTHER_STEPS = "was made from other records than steps.jsonl holds"
ATTACKS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "other rate": (
        in_record(lambda of: of["train"]["optimizer"].update(lr=0.9)), "rates", "step 1: a learning rate of "
    ),
    "other optimizer": (in_record(lambda of: of["train"]["optimizer"].update(kind="adamw")), "records", RUN_JSON),
    "other smoothing": (in_record(lambda of: of["train"]["loss"].update(label_smoothing=0.3)), "records", RUN_JSON),
    "other dropout": (in_record(lambda of: of["model"].update(dropout=0.45)), "records", RUN_JSON),
    "edited checkpoint": (edited_checkpoint, "weights", "is not the network that was kept as"),
    "edited bundle": (edited_bundle, "bundle", "does not name the weights that it was made from"),
    "no digests": (no_digests, "records", OTHER_STEPS),
    "late beginning": (late_beginning, "starts", "attempt 1 went on after step 30, but nothing was trained before it"),
    "no starts": (
        lambda run: (run / paths.STARTS).unlink(), "records", "was made from other records than starts.jsonl holds"
    ),
    "halved losses": (
        lambda run: edit_lines(run, lambda line: line.update(loss=line["loss"] / 2) if "loss" in line else None),
        "records",
        OTHER_STEPS,
    ),
    "edited evaluation": (
        in_record(lambda of: of["scores"].update(bleu=99.0), "evaluation.test.json"), "scores", "bleu 99, computed aga"
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", [*ATTACKS, *FURTHER])
def test_a_changed_run_differs(attack: str, home: Path, run: Path, verify: Callable[..., Verdict]) -> None:
    """By hand, or forged with care."""
    if attack in ATTACKS:
        change_run, what, message = ATTACKS[attack]
        change_run(run)
    else:
        forge_run, what, message = FURTHER[attack]
        (shards,) = (path.parent for path in (home / "shards").glob("*/manifest.json"))
        forge_run(run, shards)
    result, detail = verify(1)[what]
    assert result == "differs" and message in detail


def test_weights_without_a_note_are_compared_with_the_digest_that_the_bundle_names(
    run: Path, verify: Callable[..., Verdict]
) -> None:
    path = run / "weights" / "step-00000030.safetensors"
    shutil.rmtree(run / "checkpoints" / "step-00000030")
    forge(path)
    path.with_suffix(".sha256").unlink()
    assert "made from weights of step 30 that are not those of the run" in verify(1)["bundle"][1]


def test_all_files_that_a_run_begins_from_are_on_record() -> None:
    files = {paths.TRAINING, paths.PRECISION, *(beginning.file for beginning in BEGINNINGS)}
    assert set(paths.BEGINNING) == files


def test_an_evaluation_that_is_replaced_by_the_command_is_known(
    home: Path, run: Path, verify: Callable[..., Verdict]
) -> None:
    words = [f"paths.root={home}", f"paths.runs={run.parent}", "name=one", *SETTINGS]
    assert entries.main(["evaluate", *words, "evaluate.sentences=10"]) == 0
    assert verify(0)["scores"][0] == "same"
    assert len(list(journal.lines(run / paths.EVALUATIONS))) == 2


def test_scores_of_sets_of_files_are_made_again(
    home: Path, run: Path, verify: Callable[..., Verdict], tmp_path: Path
) -> None:
    """By the bundle, from the files that the evaluation names."""
    (shards,) = (path.parent for path in (home / "shards").glob("*/manifest.json"))
    sides = [(shards / f"test.{language}.txt").read_text().splitlines()[:12] for language in ("en", "de")]
    news = tmp_path / "news.tsv"
    news.write_text("".join(f"{source}\t{target}\n" for source, target in zip(*sides, strict=True)))
    words = [f"paths.root={home}", f"paths.runs={run.parent}", "name=one", *SETTINGS]
    for stored in ("true", "false"):
        evaluated = ["evaluate", *words, f"+evaluate.sets.news={news}", f"evaluate.stored={stored}"]
        assert entries.main(evaluated) == 0
    result, detail = verify(0)["scores"]
    assert result == "same" and "evaluation.sets.json: news: all 12 translations as made again" in detail
    path = run / "evaluation.sets.json"
    record = json.loads(path.read_text())
    for edit, message in (
        (lambda sets: sets[0]["scores"].update(bleu=99.0), "scores.bleu 99, computed again "),
        (lambda sets: sets[0]["lengths"][0]["scores"].update(chrf=99.0), "chrf 99, computed again "),
        (lambda sets: sets[0].update(digest="0" * 12), "news.tsv: not the set news that was scored"),
    ):
        forged = json.loads(json.dumps(record))
        edit(forged["sets"])  # type: ignore[no-untyped-call]
        path.write_text(json.dumps(forged))
        journal.note_evaluation(run, path)
        assert message in verify(1)["scores"][1]
    path.write_text(json.dumps({**record, "bundle": "0" * 64}))
    assert "is of another bundle, 000000000000" in verify(1)["scores"][1]


@pytest.mark.parametrize("wanted", ["LAST", "ALL", "2"])
def test_intervals_come_out_bit_for_bit_again(wanted: str, verify: Callable[..., Verdict]) -> None:
    result, detail = verify(0, f"verify.recompute={wanted}")["again"]
    assert result == "same"
    assert detail.count("every bit") == {"LAST": 1, "ALL": 4, "2": 2}[wanted]


def test_weights_that_were_not_trained_so_are_found_though_all_records_fit(
    run: Path, verify: Callable[..., Verdict]
) -> None:
    """Kept weights and their hash, checkpoint and manifest are changed together; the last interval shows it."""
    edited_checkpoint(run)
    path = run / "checkpoints" / "step-00000040" / "network.safetensors"
    *before, last = journal.lines(run / paths.SAVED)
    last["manifest"] = file_sha256(path.with_name("manifest.json"))
    (run / paths.SAVED).write_text("".join(f"{json.dumps(line)}\n" for line in (*before, last)))
    shutil.copyfile(path, run / "weights" / "step-00000040.safetensors")
    (run / "weights" / "step-00000040.sha256").write_text(f"{file_sha256(path)}  step-00000040.safetensors\n")
    shutil.rmtree(run / "bundle")
    (run / "evaluation.test.json").unlink()
    (run / paths.EVALUATIONS).unlink()
    assert verify(0)["weights"][0] == "same"
    result, detail = verify(1, "verify.recompute=LAST")["again"]
    assert result == "differs" and "steps 31 to 40: trained again, " in detail


def test_another_kind_of_machine_must_agree_within_noise(
    run: Path, verify: Callable[..., Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.pipelines.tasks.recompute.machine", lambda device: "another")
    result, detail = verify(0, "verify.recompute=LAST")["again"]
    assert result == "same" and "losses within 2%" in detail
    edited_checkpoint(run)
    assert verify(1, "verify.recompute=LAST")["again"][0] == "differs"


def test_what_can_be_asked_for_is_named(run: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", str(run), f"paths.root={home}", "verify.recompute=some"]
    assert entries.main(words) == 2
    assert "verify.recompute=some: choices are LAST, ALL and a number" in capsys.readouterr().err


def test_a_test_set_that_was_opened_before_is_said(
    home: Path, run: Path, verify: Callable[..., Verdict], capsys: pytest.CaptureFixture[str]
) -> None:
    """By the run's own release, by the same recipe again, and by a run of another recipe."""
    words = [f"paths.root={home}", f"paths.runs={run.parent}", *SETTINGS]
    _, first = journal.lines(run / "openings.jsonl")  # the validation set, then the test set
    capsys.readouterr()
    assert entries.main(["evaluate", *words, "name=one"]) == 0
    assert (
        f"test (set {first['set']}): opening 2 of 20 of these 20 sentences; before it 1 by this recipe\n"
        in capsys.readouterr().out
    )
    assert entries.main(["evaluate", *words, "name=one", "evaluate.split=valid"]) == 0
    assert "opening " not in capsys.readouterr().out, "settings are chosen on it"
    other = run.parent / "two"
    shutil.copytree(run, other, ignore=shutil.ignore_patterns("openings.jsonl", "evaluation.*"))
    change(other / "run.json", lambda record: record["train"]["optimizer"].update(lr=0.5))
    change(other / "bundle" / "config.json", lambda facts: facts["run"].update(name="two"))
    assert entries.main(["evaluate", *words, "name=two"]) == 0
    told = capsys.readouterr().out
    assert (
        "opening 3 of 20 of these 20 sentences; before it 0 by this recipe, 2 by 1 other (one). What changed since then"
        in told
    )
    assert entries.main(["evaluate", *words, "name=two", "evaluate.sentences=5"]) == 0
    assert (
        "opening 4 of 5 of these 5 sentences; before it 1 by this recipe, 2 by 1 other (one)" in capsys.readouterr().out
    )
    assert verify(0)["records"][0] == "same"
    lines = (run / "openings.jsonl").read_text().splitlines(keepends=True)
    (run / "openings.jsonl").write_text(lines[1])
    assert "openings.jsonl, line 1: follows another line" in verify(1)["records"][1]
