"""`dragoman promote` and `dragoman rollback` over a registry, a shard directory's texts."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest, write_manifest
from dragoman.pipelines import entries
from dragoman.pipelines.evaluation.held_out import gate_split
from dragoman.pipelines.tracking.promotion import REASON_TAG, rollback
from dragoman.pipelines.tracking.registry import Registry, Version, register_bundle
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.settings import PromoteConfig, RegistryConfig, TrackingConfig
from tests.held_out import keep_texts
from tests.pipelines.tracking.conftest import promoted

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

    def __call__(self, registry: Registry, version: Version, lines: Sequence[str]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            bundle = registry.bundle(version, Path(folder))
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
    reason = registry.version("2").tags[REASON_TAG]
    assert ": BLEU " in reason and "on 100 sentences of valid, p = 0.0" in reason
    assert rollback(registry, "complaints", tmp_path / "promote.lock").champion == "1"
    assert registry.version("1").tags[REASON_TAG].endswith(": complaints")


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
