"""The alias moves forward only by proof, back on command, and every move is on record."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.tracking import gate, history
from dragoman.pipelines.tracking.author import OWNER_TAG, expected_owner, new_owner, user
from dragoman.pipelines.tracking.gate import Question
from dragoman.pipelines.tracking.history import Event, former_champions
from dragoman.pipelines.tracking.promotion import (
    Compare,
    Comparison,
    Outcome,
    PolicyChange,
    PromoteConfig,
    change_policy,
    promote,
    rollback,
)
from dragoman.pipelines.tracking.registry import Registry, RegistryConfig, Version
from dragoman.pipelines.tracking.server import TrackingConfig


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
    return lambda one, other, samples: Comparison("BLEU", candidate, champion, p_value, 1000)


def unasked(candidate: Version, champion: Version | None, samples: int) -> Comparison:
    """A first champion is of use; no two versions are to be compared."""
    if champion is not None:
        pytest.fail("nothing was to be compared")
    return Comparison("BLEU", 20.0, 1.0, 0.001, 1000, floor="a copy of the source", learned="knows nothing of it")


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

    def events(self) -> list[tuple[str, str, str | None]]:
        events = history.read(self.registry.client, "demo-en-de")
        return [(event.action, event.to, event.before) for event in events]


@pytest.fixture
def stage(registry: Registry, tmp_path: Path) -> Stage:
    return Stage(registry, tmp_path / "promote.lock")


def test_the_first_version_beats_a_floor(stage: Stage) -> None:
    of_no_use = Comparison("BLEU", 0.0, 1.0, 0.001, 1000, floor="a copy of the source")
    refused = stage.promote("1", lambda *given: of_no_use)
    assert not refused.accepted and stage.champion() is None
    assert "not better: a first champion has to beat a copy of the source: BLEU 0.00 against 1.00" in refused.message
    assert "(promote.force=true promote.reason='...' makes it one)" in refused.message
    by_luck = replace(of_no_use, candidate=2.0, p_value=0.2)
    assert not stage.promote("1", lambda *given: by_luck).accepted
    accepted = stage.promote("1", unasked)
    assert accepted.accepted and stage.champion() == "1"
    assert "the first champion: BLEU 20.00 against 1.00 of a copy of the source" in accepted.message
    assert accepted.message.endswith("; knows nothing of it)")


@pytest.mark.parametrize(("score", "better"), [(29.0, True), (28.5, False)])
def test_a_guarded_set_may_lose_just_what_is_allowed(score: float, better: bool) -> None:
    kept = (Comparison("BLEU", score, 30.0, 0.001, 1000),)
    assert Comparison("BLEU", 31.0, 30.0, 0.001, 1000, kept=kept, may_lose=1.0).better(0.05) is better


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
    assert stage.events()[-1] == ("promoted" if accepted else "refused", "2", "1")


def test_the_oftener_a_gate_is_asked_the_more_an_answer_must_prove(stage: Stage) -> None:
    """20 equal models at p = 0.04 each: one of them would be champion by luck."""
    stage.promote("1", unasked)
    asked: list[int] = []

    def compare(candidate: Version, champion: Version, samples: int) -> Comparison:
        asked.append(samples)
        return Comparison("BLEU", 31.0, 30.0, 0.02, 1000, gate="set", of="valid")

    refused = Comparison("BLEU", 30.5, 30.0, 0.04, 1000, gate="set", of="valid")
    first = stage.promote("2", lambda *given: refused)
    assert not first.accepted
    assert "p = 0.04, to be below 0.025 as question 1 to this gate" in first.message
    assert not stage.promote("2", lambda *given: refused).accepted
    second = stage.promote("3", compare)
    assert not second.accepted, "0.02 would have done for the first question"
    assert "to be below 0.00833 as question 2 to this gate" in second.message, "the same again spends nothing"
    elsewhere = replace(refused, gate="another", p_value=0.02)
    assert stage.promote("4", lambda *given: elsewhere).accepted, "a set is asked for itself"
    for number in range(3, 9):
        gate.ask(
            stage.registry.client, "demo-en-de", "set", Question(f"x{number}", "1", "BLEU", 0.5, "me", f"9{number}")
        )
    stage.promote("3", compare)
    assert asked == [1000, 3600], "question 9 must be below 0.05 / 90: 1,000 resamples cannot say that"


def test_the_same_question_has_the_answer_that_it_had(stage: Stage) -> None:
    """Otherwise other numbers of resamples would be tried until one of them is lucky, and nothing spent."""
    stage.promote("1", unasked)
    assert not stage.promote("2", verdict(31.0, 30.0, 0.026)).accepted
    again = stage.promote("2", verdict(31.0, 30.0, 0.024), samples=1001)
    assert not again.accepted
    assert "p = 0.026, to be below 0.025 as question 1" in again.message


def test_what_all_questions_together_spend_is_bounded() -> None:
    spent = [gate.level(0.05, number) for number in range(1, 10_000)]
    assert sum(spent) < 0.05
    assert spent[:3] == pytest.approx([0.025, 0.05 / 6, 0.05 / 12])


def test_test_scores_are_reported_and_decide_nothing(stage: Stage) -> None:
    stage.promote("1", unasked)
    for version, score in (("1", "39.00"), ("2", "38.00")):
        stage.registry.client.set_model_version_tag("demo-en-de", version, "test_bleu", score)
    outcome = stage.promote("2", BETTER)
    assert outcome.accepted
    assert "test set, reported only: BLEU 38.00 against 39.00" in outcome.message


@pytest.mark.parametrize("p_value", [0.999, 0.06])
def test_no_asker_allows_himself_more_luck_than_the_policy(stage: Stage, p_value: float) -> None:
    stage.promote("1", unasked)
    with pytest.raises(UserError, match=r"promote\.p_value=.*: the policy of this model allows 0\.05 at most"):
        stage.promote("2", unasked, p_value=p_value)
    assert stage.promote("2", unasked, p_value=p_value, force=True, reason="by hand").accepted
    assert stage.events()[-1][0] == "forced"


def test_a_policy_bounds_questions_and_gates(stage: Stage) -> None:
    stage.promote("1", unasked)
    change_policy(stage.registry, PolicyChange(questions=1, gates=2))
    poor = Comparison("BLEU", 29.0, 30.0, 0.5, 1000, gate="a")
    assert not stage.promote("2", lambda *given: poor).accepted
    good = replace(poor, candidate=31.0, p_value=0.0001)
    second = stage.promote("3", lambda *given: good)
    assert not second.accepted and "question 2 to this gate, and the policy allows 1" in second.message
    assert not stage.promote("2", lambda *given: replace(poor, gate="b")).accepted
    third = stage.promote("3", lambda *given: replace(good, gate="c"))
    assert not third.accepted and "a gate that was not asked before, and the policy allows 2" in third.message
    assert stage.champion() == "1"


def test_an_answer_that_somebody_wrote_into_the_registry_makes_none_stronger(stage: Stage) -> None:
    stage.promote("1", unasked)
    gate.ask(stage.registry.client, "demo-en-de", "unnamed", Question("2", "1", "BLEU", 1e-9, "me", "2026"))
    assert not stage.promote("2", verdict(31.0, 30.0, 0.4)).accepted


def test_force_moves_without_proof_and_is_recorded_with_its_reason(stage: Stage) -> None:
    stage.promote("1", unasked)
    with pytest.raises(UserError, match=r"promote\.reason"):
        stage.promote("2", unasked, force=True)
    assert stage.promote("2", unasked, force=True, reason="hot fix").accepted
    last = history.read(stage.registry.client, "demo-en-de")[-1]
    assert (last.action, last.reason, last.before) == ("forced", "hot fix", "1")
    assert "@" in last.by


def test_promoting_the_champion_changes_nothing(stage: Stage) -> None:
    stage.promote("1", unasked)
    assert stage.promote("1", unasked).accepted
    assert len(stage.events()) == 1


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


def test_history_outlives_a_deleted_champion(stage: Stage) -> None:
    """Deleting a version drops its alias without a word: the last champion left is still the one to beat."""
    stage.promote("1")
    stage.promote("2")
    stage.registry.client.delete_model_version("demo-en-de", "2")
    assert stage.champion() is None
    assert not stage.promote("3", verdict(29.0, 30.0, 0.01)).accepted
    assert stage.rollback().champion == "1"
    assert [event[0] for event in stage.events()] == ["promoted", "promoted", "refused", "rolled back"]


def test_a_champion_that_changes_during_the_comparison_is_compared_with_again(stage: Stage) -> None:
    stage.promote("1")
    rivals = []

    def slow(candidate: Version, champion: Version, samples: int) -> Comparison:
        rivals.append(champion.number)
        if len(rivals) == 1:
            stage.registry.set_champion("2")  # somebody else was faster
        return Comparison("BLEU", 31.0, 30.0, 0.001, 1000)

    assert stage.promote("3", slow).accepted
    assert rivals == ["1", "2"]
    assert stage.events()[-1] == ("promoted", "3", "2")


def test_of_two_promotions_at_once_the_second_has_to_beat_the_first(stage: Stage) -> None:
    stage.promote("1")
    both = threading.Barrier(2, timeout=20)
    outcomes: dict[str, Outcome] = {}

    def run(version: str) -> None:
        met: list[int] = []

        def compare(candidate: Version, champion: Version, samples: int) -> Comparison:
            if not met:
                met.append(both.wait())  # both have looked at champion 1
            quality = {"1": 10.0, "2": 20.0, "3": 30.0}
            return Comparison("BLEU", quality[candidate.number], quality[champion.number], 0.001, 1000)

        outcomes[version] = stage.promote(version, compare)

    threads = [threading.Thread(target=run, args=(version,)) for version in ("2", "3")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stage.champion() == "3", "the better of the two, in whatever order they came"
    assert outcomes["3"].accepted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"version": "9"}, r"no version '9'\. Versions: 4, 3, 2, 1"),
        ({"version": "1", "p_value": 5.0}, r"promote\.p_value"),
        ({"version": "1", "samples": 3}, r"promote\.samples"),
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


def test_what_a_crash_left_between_record_and_move_misleads_no_rollback() -> None:
    def moved(to: str, before: str | None) -> Event:
        return Event("promoted", to, before, "", "me", "")

    recorded = [moved("1", None), moved("2", "1"), moved("3", "2")]
    assert former_champions(recorded, "2") == ["1"], "3 was written down but never became champion"
    assert former_champions(recorded, "4") == ["3", "2", "1"], "4 was set by hand"
    assert former_champions([moved("7", "5")], "7") == ["5"], "5 was champion before our record began"
    assert former_champions([], "1") == []


def test_a_copied_database_holds_the_history(stage: Stage, tracking: TrackingConfig, tmp_path: Path) -> None:
    stage.promote("1")
    copy = tmp_path / "copy.db"
    shutil.copyfile(tracking.uri.removeprefix("sqlite:///"), copy)
    restored = Registry(replace(tracking, uri=f"sqlite:///{copy}"), RegistryConfig(name="demo-en-de"))
    assert [event.to for event in history.read(restored.client, "demo-en-de")] == ["1"]


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
    with pytest.raises(UserError, match="the model belongs to another owner in the registry"):
        stage.promote("3", unasked, force=True, reason="mine")
    with pytest.raises(UserError, match="belongs to another owner"):
        stage.rollback()
    assert stage.champion() == "2" and len(stage.events()) == 2
    job("anna", "anna")
    assert stage.promote("3", unasked, force=True, reason="mine").accepted
    job("zelda", "anna")  # an admin's
    assert stage.rollback().accepted
    events = history.read(stage.registry.client, "demo-en-de")
    assert [event.by.partition("@")[0] for event in events[2:]] == ["anna", "zelda"]


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
