"""Moves the alias: to a version that is significantly better, or back to the previous champion."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from dragoman.model.errors import UserError
from dragoman.model.files import exclusive
from dragoman.model.ranges import Amount, Probability, Range, ShareAboveZero, Whole, check_ranges
from dragoman.pipelines.settings import CheckName
from dragoman.pipelines.tracking import gate, history
from dragoman.pipelines.tracking.author import user_and_machine
from dragoman.pipelines.tracking.cards import NOISE_TAG
from dragoman.pipelines.tracking.faults import Faults
from dragoman.pipelines.tracking.history import Action, Event
from dragoman.pipelines.tracking.policy import Policy, read_policy, write_policy
from dragoman.pipelines.tracking.registry import Registry, Version

logger = logging.getLogger(__name__)

ATTEMPTS = 5  # comparisons restarted because the champion changed meanwhile


@dataclass
class PolicyChange:
    """The owner's changes to a model's policy; null: unchanged."""

    p_value: Annotated[float, Range(0, 0.5, above=True)] | None = None
    questions: Whole | None = None
    gates: Whole | None = None


@dataclass
class PromoteConfig:
    """The version to make champion, and the proof that it needs."""

    version: str | None = None  # null: the newest
    split: str = "auto"  # of texts; auto: gate if the shards have it, else valid. Never the test set
    # auto: BLEU; for word vectors the mean of Spearman's correlation and of correct analogies; for language models the
    # likelihood, as bits per character (masked ones: nats per predicted token)
    metric: Literal["auto", "bleu", "chrf", "similarity", "analogies", "likelihood"] = "auto"
    samples: Annotated[int, Range(100)] = 1000  # least bootstrap resamples; more if the level needs them
    also: list[str] = field(default_factory=list)  # other shards, on whose held-out texts it may not be much worse
    may_lose: Amount = 1.0  # at most, of the metric, on each of `also`
    checks: list[CheckName] = field(default_factory=list)  # translation: rules under which it may not be worse
    checks_p_value: ShareAboveZero = 0.05  # more faults that chance explains no better are refused; 1: any more
    # all questions to a gate together may spend this, see `gate.level`; null: the policy's value
    p_value: Probability | None = None
    force: bool = False  # promote without proof; needs a reason
    reason: str = ""
    show_policy: bool = False  # `promote --policy`: show the model's policy, or set the values of `policy`
    policy: PolicyChange = field(default_factory=PolicyChange)


@dataclass(frozen=True)
class Comparison:
    """Two versions on the same held-out set."""

    metric: str
    candidate: float
    champion: float
    p_value: float  # of the paired bootstrap
    items: int
    unit: str = "sentences"
    lower_is_better: bool = False  # as of losses
    digits: int = 2
    gate: str = "unnamed"  # the set asked: `gate.set_name` of a set without reported scores
    of: str = ""  # its name for users: the split's
    floor: str = ""  # what stands in the place of a champion: a copy of the source, the most frequent label
    learned: str = ""  # how much of the set the candidate learned from
    reported: str = ""  # the test set's scores, on which nothing depends
    kept: tuple["Comparison", ...] = ()  # on the held-out sets of which little may be lost
    may_lose: float = 0.0  # on each of those
    faults: tuple[Faults, ...] = ()  # under each rule of which it may not have more
    faults_p_value: float = 1.0  # by chance, above which more of them count as none

    def better(self, p_value: float) -> bool:
        """Returns True if the lead is significant at that level, and it loses nowhere more than allowed."""
        kept = all(set_lead.lead >= -self.may_lose for set_lead in self.kept)
        worse = any(fault.worse(self.faults_p_value) for each in (self, *self.kept) for fault in each.faults)
        return self.lead > 0 and self.p_value < p_value and kept and not worse

    @property
    def faults_told(self) -> str:
        """Returns the faults of both on every set, each after a semicolon."""
        every = [(fault, f" on {each.of}" if each.of else "") for each in (self, *self.kept) for fault in each.faults]
        return "".join(f"; {fault}{where}{' (worse)' * fault.worse(self.faults_p_value)}" for fault, where in every)

    @property
    def lead(self) -> float:
        """Returns how much better the candidate is, in the metric's unit."""
        return self.champion - self.candidate if self.lower_is_better else self.candidate - self.champion

    def __str__(self) -> str:
        ours, theirs = (f"{value:.{self.digits}f}" for value in (self.candidate, self.champion))
        where = f" of {self.of}" if self.of else ""
        floor = f" of {self.floor}" if self.floor else ""
        return (
            f"{self.metric} {ours} against {theirs}{floor} on {self.items:,} {self.unit}{where}, p = {self.p_value:.3g}"
        )


@dataclass(frozen=True)
class Outcome:
    """The result of a promotion or rollback."""

    accepted: bool  # True if the version is champion now
    champion: str | None  # the present champion
    message: str


# candidate, champion (None: a floor), resamples; returns None for an imported model that no gate can measure
Compare = Callable[[Version, Version | None, int], Comparison | None]
TEST_SCORES = {  # tags of a version with the scores of its test set
    "test_bleu": "BLEU",
    "test_chrf": "chrF",
    "test_bits_per_character": "bits per character",
    "test_nats": "nats per token",
    "test_accuracy": "accuracy",
    "test_mae": "mean error",
}


def promote(registry: Registry, config: PromoteConfig, compare: Compare, lock: Path) -> Outcome:
    """Makes the candidate champion if it is better than the champion, or than a floor if there is none, or by force.

    The comparison may take minutes; if the champion changes meanwhile it is repeated with the new one. The file lock
    `lock` guards the move on this machine; a move from another machine could only fall into the milliseconds between
    the last check and the move.

    Raises UserError: the model is another owner's, no such version, force without a reason, or settings out of range.
    """
    if config.force and not config.reason.strip():
        raise UserError("promote.reason: force is recorded with a reason; give one: promote.reason='...'")
    check_ranges("promote", config)
    registry.check_owner()
    if config.version is None:
        registry.newest()  # raises if there is no version yet
    policy = read_policy(registry.client, registry.config.name)
    if not config.force:
        policy.refuse_wider(config.p_value or policy.p_value)
    candidate = registry.version(config.version) if config.version else registry.newest()
    if NOISE_TAG in candidate.tags and not config.force:
        raise UserError(
            f"{registry.config.name}: version {candidate.number} was pre-trained to undo noise and translates nothing; "
            f"a translation begins with it: dragoman train train.init_from={registry.config.name}/{candidate.number}"
        )
    for _ in range(ATTEMPTS):
        champion = registry.champion()
        if champion and champion.number == candidate.number:
            return Outcome(True, champion.number, f"version {candidate.number} is the champion already")
        action, reason = _judge(registry, config, policy, compare, candidate, champion)
        with exclusive(lock, wait=True):
            if _number(registry.champion()) != _number(champion):
                logger.info("the champion changed during the comparison; comparing again")
                continue
            event = _record(registry, action, candidate.number, champion, reason)
            if event.moved:
                registry.set_champion(candidate.number)
        if not event.moved:
            force = "there is no champion still (promote.force=true promote.reason='...' makes it one)"
            kept = f"version {champion.number} stays" if champion else force
            return Outcome(False, event.before, f"not better: {reason}; {kept}")
        return Outcome(True, candidate.number, f"version {candidate.number} is champion ({action}: {reason})")
    raise RuntimeError(f"the champion changed during each of {ATTEMPTS} comparisons; try again when it is quiet")


def change_policy(registry: Registry, change: PolicyChange) -> str:
    """Sets the values that `change` names in the model's policy, and records that; returns the policy as text.

    Raises UserError: no such model, another owner's, or a value out of range.
    """
    registry.newest()  # raises if there is no version yet
    registry.check_owner()
    client, name = registry.client, registry.config.name
    policy = read_policy(client, name)
    changed = replace(policy, **{key: value for key, value in vars(change).items() if value is not None})
    if changed == policy:
        return str(policy)
    write_policy(client, name, changed)
    _record(registry, "policy", "", registry.champion(), str(changed))
    return f"{changed} (before: {policy})"


def rollback(registry: Registry, reason: str, lock: Path) -> Outcome:
    """Makes the previous champion the champion again, among those that still exist.

    Raises UserError: there is none, or the model is another owner's.
    """
    registry.check_owner()
    with exclusive(lock, wait=True):
        champion = registry.champion()
        former = _former(registry, champion)
        if not former:
            now = f"version {champion.number}" if champion else "none"
            raise UserError(f"{registry.config.name}: no earlier champion to go back to (champion now: {now})")
        target = former[0]
        _record(registry, "rolled back", target.number, champion, reason or "rollback")
        registry.set_champion(target.number)
    before = f"version {champion.number}" if champion else "no champion"
    return Outcome(True, target.number, f"version {target.number} is champion again (before: {before})")


def _judge(
    registry: Registry,
    config: PromoteConfig,
    policy: Policy,
    compare: Compare,
    candidate: Version,
    champion: Version | None,
) -> tuple[Literal["promoted", "forced", "refused"], str]:
    if config.force:
        return "forced", config.reason
    rival = champion
    if rival is None:
        # Deleting the champion drops the alias silently: then the last remaining champion must be beaten.
        rival = next((former for former in _former(registry, None) if former.number != candidate.number), None)
    client, name, p_value = registry.client, registry.config.name, config.p_value or policy.p_value
    if rival is None:
        result = compare(candidate, None, gate.enough_samples(client, name, p_value, config.samples))
        if result is None:
            return "promoted", "the first champion, imported; paths.shards has no gate to measure it on"
        reason = f"{result}, to be below {p_value:.3g}; {result.learned}"
        if result.better(p_value):
            return "promoted", f"the first champion: {reason}"
        return "refused", f"a first champion has to beat {result.floor}: {reason}"
    result = compare(candidate, rival, gate.enough_samples(client, name, p_value, config.samples))
    assert result is not None, "there are two versions to compare"
    question = gate.Question(
        candidate.number, rival.number, result.metric, result.p_value, user_and_machine(), history.now()
    )
    over = policy.exhausted(*gate.place(client, name, result.gate, question))
    if over:
        return "refused", f"{result}, {over}"
    number, answered = gate.ask(client, name, result.gate, question)
    # anybody may have written a tag: it can weaken an answer, never strengthen it
    result = replace(result, p_value=max(answered.p_value, result.p_value))
    level = gate.level(p_value, number)
    reported = result.reported or test_scores(candidate, rival)
    reason = (
        f"{result}, to be below {level:.3g} as question {number} to this gate "
        f"(version {candidate.number} against {rival.number}"
        f"{f'; test set, reported only: {reported}' if reported else ''})"
    ) + (f"; {result.learned}" if result.learned else "")
    reason += "".join(f"; {set_lead} (at most {result.may_lose:g} may be lost)" for set_lead in result.kept)
    reason += result.faults_told
    return ("promoted" if result.better(level) else "refused"), reason


def test_scores(candidate: Version, champion: Version) -> str:
    """Returns both versions' scores on their test sets from the registry; empty if one has none."""
    return ", ".join(
        f"{label} {candidate.tags[key]} against {champion.tags[key]}{_openings(candidate, champion)}"
        for key, label in TEST_SCORES.items()
        if key in candidate.tags and key in champion.tags
    )


def _openings(candidate: Version, champion: Version) -> str:
    """Returns how often the test set had been used when each was scored; empty if that is unknown."""
    counts = [version.tags.get("test_openings") for version in (candidate, champion)]
    return f" (openings {counts[0]} and {counts[1]} of the set)" if all(counts) else ""


def _former(registry: Registry, champion: Version | None) -> list[Version]:
    """Returns earlier champions that still exist, the nearest first."""
    there = {version.number: version for version in registry.versions()}
    if not there:
        return []
    events = history.read(registry.client, registry.config.name)
    numbers = history.former_champions(events, _number(champion))
    return [there[number] for number in numbers if number in there]


def _record(registry: Registry, action: Action, to: str, before: Version | None, reason: str) -> Event:
    """Adds an event to the model's history."""
    event = Event(action, to, _number(before), reason, user_and_machine(), history.now())
    history.append(registry.client, registry.config.name, event)
    return event


def _number(version: Version | None) -> str | None:
    return version.number if version else None
