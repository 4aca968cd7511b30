"""The alias moves forward only by proof, back on command, and the champion says why it is one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.model_owner import OWNER_TAG
from dragoman.pipelines.tracking.author import expected_owner, new_owner, user
from dragoman.pipelines.tracking.promotion import (
    BEFORE_TAG,
    REASON_TAG,
    Compare,
    Comparison,
    Outcome,
    promote,
    rollback,
)
from dragoman.pipelines.tracking.registry import Registry, Version
from dragoman.pipelines.tracking.settings import PromoteConfig, RegistryConfig, TrackingConfig


@pytest.fixture
def registry(tracking: TrackingConfig, tmp_path: Path) -> Registry:
    """A registered model with versions 1 to 4, no champion."""
    registry = Registry(tracking, RegistryConfig(name="demo-en-de"))
    registry.client.create_registered_model("demo-en-de")
    experiment = registry.client.create_experiment("demo", artifact_location=str(tmp_path / "mlartifacts"))
    run = registry.client.create_run(experiment)
    for _ in range(4):
        registry.client.create_model_version("demo-en-de", f"{run.info.artifact_uri}/model", run.info.run_id)
    return registry


def verdict(candidate: float, champion: float, p_value: float) -> Compare:
    return lambda one, other: Comparison("BLEU", candidate, champion, p_value, 1000)


def unasked(candidate: Version, champion: Version | None) -> Comparison:
    """A first champion is of use; no two versions are to be compared."""
    if champion is not None:
        pytest.fail("nothing was to be compared")
    return Comparison("BLEU", 20.0, 1.0, 0.001, 1000, floor="a copy of the source")


BETTER = verdict(31.0, 30.0, 0.001)


class Stage:
    """A registry with its lock, to say in one line what is promoted by what proof."""

    def __init__(self, registry: Registry, lock: Path) -> None:
        self.registry, self.lock = registry, lock

    def promote(self, version: str, compare: Compare = BETTER, **settings: Any) -> Outcome:
        return promote(self.registry, PromoteConfig(version=version, **settings), compare, self.lock)

    def rollback(self) -> Outcome:
        return rollback(self.registry, "", self.lock)

    def champion(self) -> str | None:
        found = self.registry.champion()
        return found.number if found else None

    def reason(self, version: str) -> str:
        return self.registry.version(version).tags[REASON_TAG]


@pytest.fixture
def stage(registry: Registry, tmp_path: Path) -> Stage:
    return Stage(registry, tmp_path / "promote.lock")


def test_the_first_version_beats_a_floor(stage: Stage) -> None:
    of_no_use = Comparison("BLEU", 0.0, 1.0, 0.001, 1000, floor="a copy of the source")
    refused = stage.promote("1", lambda *given: of_no_use)
    assert not refused.accepted and stage.champion() is None
    assert "not better: BLEU 0.00 against 1.00 of a copy of the source on" in refused.message
    assert "which a first champion has to beat; there is no champion still" in refused.message
    by_luck = replace(of_no_use, candidate=2.0, p_value=0.2)
    assert not stage.promote("1", lambda *given: by_luck).accepted
    accepted = stage.promote("1", unasked)
    assert accepted.accepted and stage.champion() == "1"
    assert "the first champion: BLEU 20.00 against 1.00 of a copy of the source" in accepted.message


def test_an_imported_first_champion_may_have_no_gate(stage: Stage) -> None:
    outcome = stage.promote("1", lambda *given: None)
    assert outcome.accepted and "imported; paths.shards has no gate to measure it on" in outcome.message


def test_a_version_that_translates_nothing_is_not_promoted_without_force(stage: Stage) -> None:
    stage.registry.client.set_model_version_tag("demo-en-de", "1", "noise", "infilling")
    with pytest.raises(UserError, match=r"version 1 was pre-trained to undo noise .* train.init_from=demo-en-de/1"):
        stage.promote("1", unasked)
    assert stage.champion() is None
    assert stage.promote("1", unasked, force=True, reason="to see it").accepted


def test_the_newest_version_is_the_candidate_by_default(stage: Stage) -> None:
    assert promote(stage.registry, PromoteConfig(), unasked, stage.lock).champion == "4"


@pytest.mark.parametrize(
    ("compare", "accepted"),
    [
        (verdict(31.0, 30.0, 0.01), True),
        (verdict(31.0, 30.0, 0.30), False),  # better, perhaps by luck
        (verdict(29.0, 30.0, 0.01), False),  # surely worse: the test is two-sided
        (verdict(30.0, 30.0, 0.01), False),
    ],
)
def test_only_a_lead_beyond_chance_moves_the_alias(stage: Stage, compare: Compare, accepted: bool) -> None:
    stage.promote("1", unasked)
    outcome = stage.promote("2", compare)
    assert outcome.accepted == accepted
    assert stage.champion() == ("2" if accepted else "1")


def test_test_scores_are_reported_and_decide_nothing(stage: Stage) -> None:
    stage.promote("1", unasked)
    for version, score in (("1", "39.00"), ("2", "38.00")):
        stage.registry.client.set_model_version_tag("demo-en-de", version, "test_bleu", score)
    outcome = stage.promote("2", BETTER)
    assert outcome.accepted
    assert "test set, reported only: BLEU 38.00 against 39.00" in outcome.message


def test_force_moves_without_proof_and_is_recorded_with_its_reason(stage: Stage) -> None:
    stage.promote("1", unasked)
    with pytest.raises(UserError, match=r"promote\.reason"):
        stage.promote("2", unasked, force=True)
    assert stage.promote("2", unasked, force=True, reason="hot fix").accepted
    assert stage.reason("2").endswith(": forced: hot fix") and "@" in stage.reason("2")
    assert stage.registry.version("2").tags[BEFORE_TAG] == "1"


def test_promoting_the_champion_changes_nothing(stage: Stage) -> None:
    stage.promote("1", unasked)
    first = stage.reason("1")
    assert stage.promote("1", unasked).accepted and stage.reason("1") == first


def test_rollbacks_go_back_one_champion_after_another(stage: Stage) -> None:
    for version in ("1", "2", "3"):
        stage.promote(version)
    assert stage.rollback().champion == "2"
    assert stage.rollback().champion == "1"
    assert stage.champion() == "1"
    with pytest.raises(UserError, match="no earlier champion"):
        stage.rollback()
    stage.promote("4")
    assert stage.rollback().champion == "1"


def test_a_rollback_to_a_deleted_version_is_refused(stage: Stage) -> None:
    for version in ("1", "2"):
        stage.promote(version)
    stage.registry.client.delete_model_version("demo-en-de", "1")
    with pytest.raises(UserError, match=r"has no version '1'"):
        stage.rollback()
    assert stage.champion() == "2"


def test_a_champion_that_changes_during_the_comparison_is_not_overwritten(stage: Stage) -> None:
    stage.promote("1")

    def slow(candidate: Version, champion: Version | None) -> Comparison:
        stage.registry.set_champion("2")  # somebody else was faster
        return Comparison("BLEU", 31.0, 30.0, 0.001, 1000)

    with pytest.raises(UserError, match="the champion changed during the comparison; promote again"):
        stage.promote("3", slow)
    assert stage.champion() == "2"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"version": "9"}, r"no version '9'\. Versions: 4, 3, 2, 1"),
        ({"version": "1", "p_value": 5.0}, r"promote\.p_value"),
        ({"version": "1", "trials": 3}, r"promote\.trials"),
    ],
)
def test_mistakes_are_named(stage: Stage, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        stage.promote(settings.pop("version"), **settings)


def test_a_model_without_versions_is_named(tracking: TrackingConfig, tmp_path: Path) -> None:
    registry = Registry(tracking, RegistryConfig(name="nothing"))
    assert registry.champion() is None
    with pytest.raises(UserError, match="'nothing' has no versions yet"):
        promote(registry, PromoteConfig(), unasked, tmp_path / "lock")


def test_a_registry_that_does_not_answer_is_named(tracking: TrackingConfig, free_port: int) -> None:
    with pytest.raises(UserError, match="does not answer") as caught:
        Registry(replace(tracking, uri=f"http://me:geheim@127.0.0.1:{free_port}"), RegistryConfig())
    assert "geheim" not in str(caught.value)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Make this process one of the job service: of an owner, with the owner of its model."""

    def begin(owner: str, model_owner: str) -> None:
        variables = {"DRAGOMAN_JOB": "j1-1", "DRAGOMAN_OWNER": owner, "DRAGOMAN_MODEL_OWNER": model_owner}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return begin


def test_a_job_moves_the_alias_of_its_own_model_alone(stage: Stage, job: Callable[[str, str], None]) -> None:
    stage.promote("1")
    stage.promote("2")
    stage.registry.client.set_registered_model_tag("demo-en-de", OWNER_TAG, "anna")
    job("ben", "ben")  # the ledger did not know better, for MLflow was away when the job was planned
    with pytest.raises(UserError, match="the model belongs to another owner"):
        stage.promote("3", unasked, force=True, reason="mine")
    with pytest.raises(UserError, match="belongs to another owner"):
        stage.rollback()
    assert stage.champion() == "2"
    job("anna", "anna")
    assert stage.promote("3", unasked, force=True, reason="mine").accepted
    job("zelda", "anna")  # an admin's
    assert stage.rollback().accepted
    assert " anna@" in stage.reason("3") and " zelda@" in stage.reason("2")


def test_the_author_is_the_owner_of_a_job_and_the_systems_user_outside_of_one(
    monkeypatch: pytest.MonkeyPatch, job: Callable[[str, str], None]
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "service")
    monkeypatch.setenv("DRAGOMAN_OWNER", "anna")  # of no job
    assert (user(), expected_owner(), new_owner()) == ("service", "", "service")
    job("anna", "")
    assert (user(), expected_owner(), new_owner()) == ("anna", "", "anna")
    job("an\nna", "")  # no name
    assert user() == "service"
