"""`dragoman promote` and `dragoman rollback` over a registry, a shard directory's texts and stored translations."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.model.bundles.directory import bundle_hash
from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.runs import journal
from dragoman.model.shards.manifest import Manifest, read_manifest, write_manifest
from dragoman.pipelines import entries
from dragoman.pipelines.evaluation.held_out import gate_split
from dragoman.pipelines.settings import CheckName
from dragoman.pipelines.tasks.openings import held_split, note_opening
from dragoman.pipelines.tracking import history
from dragoman.pipelines.tracking.hypotheses import file_name
from dragoman.pipelines.tracking.promotion import PromoteConfig, rollback
from dragoman.pipelines.tracking.registry import Registry, RegistryConfig, register_bundle
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import TrackingConfig
from tests.held_out import keep_texts
from tests.pipelines.tracking.conftest import places, promoted

REGISTRY = RegistryConfig(name="demo-en-de")
REFERENCES = [f"der {word} Hund sieht {number} Katzen im Garten ." for word in "abcdefghij" for number in range(10)]


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    sides = {split: [f"{split} {i}" for i in range(100)] for split in ("valid", "test")}
    return keep_texts(tmp_path / "shards", {split: {"en": en, "de": REFERENCES} for split, en in sides.items()})


class Translators:
    """Stands for decoding: a bundle knows the first `right` lines and garbles the others."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, bundle: Path, lines: Sequence[str]) -> list[str]:
        right = json.loads((bundle / "config.json").read_text())["right"]
        self.calls.append(right)
        return self.known(right)

    @staticmethod
    def known(right: int) -> list[str]:
        """What a bundle that knows so many lines makes of them."""
        return [line if i < right else "Hund der der" for i, line in enumerate(REFERENCES)]


@pytest.fixture
def translators(monkeypatch: pytest.MonkeyPatch) -> Translators:
    translators = Translators()
    monkeypatch.setattr("dragoman.pipelines.tasks.translation_release.translate", translators)
    return translators


def register(tracking: TrackingConfig, folder: Path, right: int) -> None:
    bundle = folder / f"run-{right}" / "bundle"
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps({"pair": "en-de", "right": right}))
    with TrackedRun(tracking, bundle.parent, bundle.parent.name) as run:
        assert register_bundle(tracking, REGISTRY, run, bundle) is not None


def test_versions_are_promoted_by_their_translations_and_rolled_back(
    tracking: TrackingConfig, tmp_path: Path, shards: Path, translators: Translators
) -> None:
    for right in (40, 80, 79):
        register(tracking, tmp_path, right)

    def promote(version: str) -> bool:
        return promoted(tracking, REGISTRY, PromoteConfig(version=version), tmp_path, shards).accepted

    assert promote("1")
    assert translators.calls == [40], "the first champion is compared with the sources alone"
    assert promote("2")
    assert not promote("3")
    assert sorted(translators.calls) == [40, 40, 79, 80, 80], "nobody the test set"
    registry = Registry(tracking, REGISTRY)
    events = history.read(registry.client, REGISTRY.name)
    assert [event.action for event in events] == ["promoted", "promoted", "refused"]
    assert events[1].reason.startswith("BLEU ")
    assert "on 100 sentences of valid, p = 0.0" in events[1].reason
    assert rollback(registry, "complaints", tmp_path / "promote.lock").champion == "1"
    noted = list(journal.lines(tmp_path / "promotions" / REGISTRY.name / "openings.jsonl"))
    assert [(line["run"], line["split"]) for line in noted] == [
        ("run-40", "valid"), ("run-80", "valid"), ("run-79", "valid")
    ], "each promotion opens its gate"  # fmt: skip
    again = held_split(shards, "valid")
    assert again is not None
    shutil.rmtree(tmp_path / "promotions")
    elsewhere = note_opening(places(tmp_path / "other"), tracking, again, tmp_path / "other" / "runs" / "new", "new")
    assert elsewhere.count == 4, "on another machine the registry knows them"
    assert history.read(registry.client, REGISTRY.name)[-1].reason == "complaints"


@pytest.mark.parametrize(("may_lose", "accepted"), [(1.0, False), (99.0, True)])
def test_a_version_that_forgets_another_domain_is_refused(
    tracking: TrackingConfig,
    tmp_path: Path,
    shards: Path,
    monkeypatch: pytest.MonkeyPatch,
    may_lose: float,
    accepted: bool,
) -> None:
    """Version 2 knows more of the new texts and less of the old ones."""
    old = shutil.copytree(shards, tmp_path / "old")
    text = (old / "valid.en.txt").read_text().replace("valid", "before")
    (old / "valid.en.txt").write_text(text)
    manifest = read_manifest(old)
    manifest.texts["valid"]["en"]["sha256"] = file_sha256(old / "valid.en.txt")
    write_manifest(old, manifest)

    def translate(bundle: Path, lines: Sequence[str]) -> list[str]:
        right = json.loads((bundle / "config.json").read_text())["right"]
        return Translators.known(100 - right if lines[0].startswith("before") else right)

    monkeypatch.setattr("dragoman.pipelines.tasks.translation_release.translate", translate)
    for right in (40, 80):
        register(tracking, tmp_path, right)
    promoted(tracking, REGISTRY, PromoteConfig(version="1", also=[str(old)]), tmp_path, shards)
    config = PromoteConfig(version="2", may_lose=may_lose, also=[str(old)])
    outcome = promoted(tracking, REGISTRY, config, tmp_path, shards)
    assert outcome.accepted is accepted
    assert "of valid of old, p = 0.0" in outcome.message and f"at most {may_lose:g} may be lost" in outcome.message


@pytest.mark.parametrize(
    ("checks", "p_value", "accepted"),
    [([], 0.05, True), (["empty"], 0.05, False), (["empty"], 0.0001, True)],
)
def test_a_version_with_more_faults_of_meaning_is_refused(
    tracking: TrackingConfig,
    tmp_path: Path,
    shards: Path,
    monkeypatch: pytest.MonkeyPatch,
    checks: list[CheckName],
    p_value: float,
    accepted: bool,
) -> None:
    """Version 2 knows twice as many lines and leaves eight empty, which version 1 does not: p = 1/256."""

    def translate(bundle: Path, lines: Sequence[str]) -> list[str]:
        right = json.loads((bundle / "config.json").read_text())["right"]
        return [*Translators.known(right)[:92], *([""] * 8 if right == 80 else Translators.known(right)[92:])]

    monkeypatch.setattr("dragoman.pipelines.tasks.translation_release.translate", translate)
    for right in (40, 80):
        register(tracking, tmp_path, right)
    promoted(tracking, REGISTRY, PromoteConfig(version="1"), tmp_path, shards)
    config = PromoteConfig(version="2", checks=checks, checks_p_value=p_value)
    outcome = promoted(tracking, REGISTRY, config, tmp_path, shards)
    assert outcome.accepted is accepted
    assert ("empty faults 8 against 0, p = 0.00391" in outcome.message) is ("empty" in checks)
    assert outcome.message.count("(worse)") == (not accepted)


def test_stored_translations_decide_nothing(
    tracking: TrackingConfig, tmp_path: Path, shards: Path, translators: Translators, caplog: pytest.LogCaptureFixture
) -> None:
    """A poor model whose stored translations are the references: what it translates now decides."""
    sources = (shards / "valid.en.txt").read_text().split("\n")[:-1]
    for right, stored in ((80, Translators.known(80)), (10, REFERENCES)):
        register(tracking, tmp_path, right)
        bundle = tmp_path / f"run-{right}" / "bundle"
        with TrackedRun(tracking, bundle.parent, bundle.parent.name) as run:
            name = file_name("valid", sources, bundle_hash(bundle))
            run.text("".join(f"{line}\n" for line in stored), name)
    promoted(tracking, REGISTRY, PromoteConfig(version="1"), tmp_path, shards)
    outcome = promoted(tracking, REGISTRY, PromoteConfig(version="2"), tmp_path, shards)
    assert not outcome.accepted and outcome.champion == "1"
    assert sorted(translators.calls) == [10, 80, 80], "the first champion when it was promoted, then both"
    assert [one.getMessage().partition(" (")[0] for one in caplog.records if one.levelname == "WARNING"] == [
        "version 2: 90 of the 100 translations stored with its run"
    ]


def test_a_bundle_that_was_changed_after_it_was_registered_is_refused(
    tracking: TrackingConfig, tmp_path: Path, shards: Path, translators: Translators
) -> None:
    for right in (40, 80):
        register(tracking, tmp_path, right)
    promoted(tracking, REGISTRY, PromoteConfig(version="1"), tmp_path, shards)
    for stored in Path(str(tracking.artifacts)).rglob("config.json"):
        if '"right": 80' in stored.read_text():
            stored.write_text(json.dumps({"pair": "en-de", "right": 100}))
    with pytest.raises(UserError, match=r"demo-en-de/2: the bundle was changed after it was registered"):
        promoted(tracking, REGISTRY, PromoteConfig(version="2"), tmp_path, shards)


def test_the_policy_is_set_and_shown_by_the_verb(
    tracking: TrackingConfig,
    tmp_path: Path,
    shards: Path,
    translators: Translators,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register(tracking, tmp_path, 80)
    register(tracking, tmp_path, 40)
    common = [
        *(f"tracking.uri={tracking.uri}", f"registry.name={REGISTRY.name}"),
        *(f"paths.shards={shards}", f"paths.root={tmp_path}"),
    ]
    assert entries.main(["promote", *common, "--policy"]) == 0
    assert "p below 0.05 for all questions to a gate together; questions: any number" in capsys.readouterr().out
    assert entries.main(["promote", *common, "--policy", "p_value=0.01", "questions=3"]) == 0
    assert "p below 0.01" in capsys.readouterr().out
    assert entries.main(["promote", *common, "promote.p_value=0.05"]) == 2
    assert "the policy of this model allows 0.01 at most" in capsys.readouterr().err
    assert entries.main(["promote", *common, "--policy", "p_value=0.9"]) == 2
    assert "promote.policy.p_value=0.9" in capsys.readouterr().err
    monkeypatch.setattr("dragoman.pipelines.tracking.policy.new_owner", lambda: "somebody")
    assert entries.main(["promote", *common, "--policy", "p_value=0.2"]) == 2
    assert "the policy is set by the model's owner" in capsys.readouterr().err
    registry = Registry(tracking, REGISTRY)
    assert [(event.action, event.moved) for event in history.read(registry.client, REGISTRY.name)] == [
        ("policy", False)
    ]


def test_a_split_that_was_not_held_out_is_named(
    tracking: TrackingConfig, tmp_path: Path, shards: Path, translators: Translators
) -> None:
    for right in (40, 80):
        register(tracking, tmp_path, right)
    promoted(tracking, REGISTRY, PromoteConfig(version="1"), tmp_path, shards)
    with pytest.raises(UserError, match=r"promote\.split: 'gate' is not known\. .*Choices: auto, valid"):
        promoted(tracking, REGISTRY, PromoteConfig(version="2", split="gate"), tmp_path, shards)
    with pytest.raises(UserError, match=r"promote\.split=test: a test set is reported and not selected on"):
        promoted(tracking, REGISTRY, PromoteConfig(version="2", split="test"), tmp_path, shards)
    assert translators.calls == [40], "the first champion, when it was promoted"


def test_a_gate_that_is_not_the_one_that_was_written_is_refused(
    tracking: TrackingConfig, tmp_path: Path, shards: Path, translators: Translators
) -> None:
    for right in (40, 80):
        register(tracking, tmp_path, right)
    promoted(tracking, REGISTRY, PromoteConfig(version="1"), tmp_path, shards)
    (shards / "valid.de.txt").write_text("".join(f"{line} !\n" for line in REFERENCES), encoding="utf-8")
    with pytest.raises(UserError, match=r"valid\.de\.txt: not the file that was written"):
        promoted(tracking, REGISTRY, PromoteConfig(version="2"), tmp_path, shards)


def test_a_gate_goes_before_validation(tmp_path: Path) -> None:
    def choose(splits: str, wanted: str) -> str:
        texts: dict[str, dict[str, dict[str, object]]] = {split: {"en": {}} for split in splits.split()}
        write_manifest(tmp_path, Manifest("demo", ["en", "de"], {"files": []}, "<u2", {}, texts=texts))
        return gate_split(tmp_path, wanted)

    assert [choose("train valid test gate", wanted) for wanted in ("auto", "gate", "valid")] == [
        "gate",
        "gate",
        "valid",
    ]
    assert choose("valid test", "auto") == "valid"
    with pytest.raises(UserError, match=r"neither a gate nor a validation set"):
        choose("test", "auto")


def test_exit_codes_of_the_verbs(
    tracking: TrackingConfig,
    tmp_path: Path,
    shards: Path,
    translators: Translators,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for right in (80, 40):
        register(tracking, tmp_path, right)
    common = [
        *(f"tracking.uri={tracking.uri}", f"registry.name={REGISTRY.name}"),
        *(f"paths.shards={shards}", f"paths.root={tmp_path}"),
    ]
    assert entries.main(["promote", *common, "promote.version=1"]) == 0
    assert entries.main(["promote", *common, "promote.version=2"]) == 1
    assert "not better" in capsys.readouterr().out
    assert entries.main(["promote", *common, "promote.version=7"]) == 2
    assert "Versions: 2, 1" in capsys.readouterr().err
    assert entries.main(["promote", *common, "promote.version=2", "promote.force=true", "promote.reason=because"]) == 0
    assert entries.main(["rollback", *common]) == 0
    assert entries.main(["rollback", *common]) == 2
    assert Registry(replace(tracking), REGISTRY).champion()
