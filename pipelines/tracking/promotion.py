"""Moves the alias: to a version that is significantly better, or back to the champion before."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.files import exclusive
from dragoman.model.ranges import check_ranges
from dragoman.pipelines.tracking.author import user_and_machine
from dragoman.pipelines.tracking.cards import NOISE_TAG
from dragoman.pipelines.tracking.registry import Registry, Version
from dragoman.pipelines.tracking.settings import PromoteConfig

BEFORE_TAG = "champion_before"  # of a version: the champion that it replaced
REASON_TAG = "champion_reason"  # of a version: when, by whom and why it became champion


@dataclass(frozen=True)
class Comparison:
    """Two versions on the same held-out set."""

    metric: str
    candidate: float
    champion: float
    p_value: float  # of the paired test
    items: int
    unit: str = "sentences"
    lower_is_better: bool = False  # as of losses
    digits: int = 2
    of: str = ""  # the set's name for users: the split's
    floor: str = ""  # what stands in for a champion: a copy of the source, the most frequent label
    reported: str = ""  # scores on which nothing depends

    def better(self, p_value: float) -> bool:
        """Returns True if the lead is significant at that level."""
        return self.lead > 0 and self.p_value < p_value

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


# candidate and champion (None: a floor); returns None for an imported model that no gate can measure
Compare = Callable[[Version, Version | None], Comparison | None]
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

    The file lock `lock` guards the move on this machine.

    Raises UserError: the model is another owner's, no such version, force without a reason, settings out of range, or
    the champion changed during the comparison.
    """
    if config.force and not config.reason.strip():
        raise UserError("promote.reason: force is recorded with a reason; give one: promote.reason='...'")
    check_ranges("promote", config)
    registry.check_owner()
    candidate = registry.version(config.version) if config.version else registry.newest()
    if NOISE_TAG in candidate.tags and not config.force:
        raise UserError(
            f"{registry.config.name}: version {candidate.number} was pre-trained to undo noise and translates nothing; "
            f"a translation begins with it: dragoman train train.init_from={registry.config.name}/{candidate.number}"
        )
    champion = registry.champion()
    if champion and champion.number == candidate.number:
        return Outcome(True, champion.number, f"version {candidate.number} is the champion already")
    accepted, reason = True, f"forced: {config.reason}"
    if not config.force:
        accepted, reason = judge(config, compare, candidate, champion)
    if not accepted:
        now = f"version {champion.number} stays" if champion else "there is no champion still"
        return Outcome(False, champion.number if champion else None, f"not better: {reason}; {now}")
    with exclusive(lock, wait=True):
        if number(registry.champion()) != number(champion):
            raise UserError(f"{registry.config.name}: the champion changed during the comparison; promote again")
        registry.tag(candidate.number, BEFORE_TAG, number(champion) or "")
        crown(registry, candidate.number, reason)
    return Outcome(True, candidate.number, f"version {candidate.number} is champion ({reason})")


def rollback(registry: Registry, reason: str, lock: Path) -> Outcome:
    """Makes the champion before the champion again.

    Raises UserError: there is none, or the model is another owner's.
    """
    registry.check_owner()
    with exclusive(lock, wait=True):
        champion = registry.champion()
        before = champion.tags.get(BEFORE_TAG) if champion else None
        if champion is None or not before:
            now = f"version {champion.number}" if champion else "none"
            raise UserError(f"{registry.config.name}: no earlier champion to go back to (champion now: {now})")
        crown(registry, registry.version(before).number, reason or f"rolled back from version {champion.number}")
    return Outcome(True, before, f"version {before} is champion again (before: version {champion.number})")


def crown(registry: Registry, version: str, reason: str) -> None:
    """Points the alias at a version, and tags that with the reason."""
    time = datetime.now(UTC).isoformat(timespec="seconds")
    registry.tag(version, REASON_TAG, f"{time} {user_and_machine()}: {reason}")
    registry.set_champion(version)


def judge(config: PromoteConfig, compare: Compare, candidate: Version, champion: Version | None) -> tuple[bool, str]:
    """Returns whether the candidate is better than the champion, or than a floor if there is none, and why."""
    result = compare(candidate, champion)
    if result is None:
        return True, "the first champion, imported; paths.shards has no gate to measure it on"
    reason = f"{result}, to be below {config.p_value:.3g}"
    if champion is None:
        better = result.better(config.p_value)
        return better, f"the first champion: {reason}" if better else f"{result}, which a first champion has to beat"
    reported = result.reported or test_scores(candidate, champion)
    reason += f" (version {candidate.number} against {champion.number}"
    reason += f"; test set, reported only: {reported})" if reported else ")"
    return result.better(config.p_value), reason


def test_scores(candidate: Version, champion: Version) -> str:
    """Returns both versions' scores on their test sets from the registry; empty if one has none."""
    return ", ".join(
        f"{label} {candidate.tags[key]} against {champion.tags[key]}"
        for key, label in TEST_SCORES.items()
        if key in candidate.tags and key in champion.tags
    )


def number(version: Version | None) -> str | None:
    """Returns the number of a version, if there is one."""
    return version.number if version else None
