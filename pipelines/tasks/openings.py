"""Checks every held-out set before it is scored: was the model trained on it, and how often was it opened?

Settings are chosen on `valid` or within the training data. Whoever looks at a test set, changes something and looks
again, chooses by it. So each opening is recorded, of any split, by any verb, in any format: a line of
RUN/openings.jsonl, which is a chain, with the hashes of the sentences in RUN/opened, and the tag `opened.SET` of the
MLflow run, sent when the server answers. Openings are counted by sentence, whatever the set was called. A *recipe* is
what run.json says of a run except seed and shards: another seed is the same recipe, another setting is another recipe.
"""

import base64
import contextlib
import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.plural import plural
from dragoman.model.runs import journal
from dragoman.model.runs.paths import OPENED, OPENINGS, SPOOL
from dragoman.model.runs.record import PLANS, read_record
from dragoman.model.shards.manifest import LABELS, has_manifest, read_manifest
from dragoman.model.text.hashed_texts import HashedTexts, Keys, find
from dragoman.model.text.tags import tag_prefix
from dragoman.model.text.text_keys import sentence_keys
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.evaluation.held_out import held_out_lines
from dragoman.pipelines.tasks.training_texts import KEY, Overlap, refuse_learned
from dragoman.pipelines.tracking.author import user_and_machine
from dragoman.pipelines.tracking.history import now
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import TrackingConfig, connect, resolve_paths

logger = logging.getLogger(__name__)
TAG, TAGGED = "opened.", "openings"  # of MLflow's runs
SKETCH = 360  # hashes in a tag, which holds 5,000 letters
MOST = 10_000  # runs of an experiment that are looked at
PART = 0.01  # of a set's lines
CHOSEN_ON = ("train", "valid", "gate")  # splits that settings and promotions are chosen on
NOT_THE_RECIPE = {PLANS, "seed", "shards"}
Counts = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RunOpenings:
    """The openings by one run: how often it opened each line of the set in question."""

    run: str
    recipe: str  # "" if unknown
    lines: Counts  # (n,)
    tested: Counts  # (n,) the openings among them as a set that no choices are made on

    @property
    def times(self) -> int:
        """Returns how often it opened the set: the count that at least `PART` of the lines have."""
        return _times(self.lines)


@dataclass(frozen=True)
class Opening:
    """One more opening of a set, and the earlier ones."""

    split: str
    digest: str  # of the set
    recipe: str
    sentences: int
    before: tuple[RunOpenings, ...]

    @property
    def lines(self) -> Counts:
        """Returns (n,): how often each line has been opened before."""
        return sum((opening.lines for opening in self.before), np.zeros(self.sentences, np.int64))

    @property
    def count(self) -> int:
        """Returns how often the set has been opened, with this time."""
        return 1 + _times(self.lines)

    @property
    def chosen_on(self) -> bool:
        """Returns True if choices are made on the set, and its lines were no test set before."""
        return self.split in CHOSEN_ON and not any(_times(opening.tested) for opening in self.before)

    @property
    def others(self) -> list[RunOpenings]:
        """Returns the openings by other recipes."""
        return [opening for opening in self.before if opening.recipe != self.recipe]

    def __str__(self) -> str:
        named = f"{self.split} (set {self.digest})"
        if self.count == 1:
            some = int((self.lines > 0).sum())
            return f"{named}: opened for the first time" + (f", but for {some:,} of its lines" if some else "")
        repeated, others = int((self.lines >= self.count - 1).sum()), [other for other in self.others if other.times]
        own = sum(opening.times for opening in self.before if opening.recipe == self.recipe)
        message = (
            f"{named}: opening {self.count:,} of {repeated:,} of these {plural(self.sentences, 'sentence')}; before it "
            f"{own:,} by this recipe"
        )
        if not others:
            return message
        recipes = len({other.recipe for other in others})
        names = ", ".join(sorted({other.run for other in others})[:4])
        return (
            f"{message}, {sum(other.times for other in others):,} by {plural(recipes, 'other')} ({names}). "
            f"What changed since then may have been chosen by it: judge this recipe on a set that was never opened"
        )


@dataclass(frozen=True)
class Held:
    """The lines of a held-out set, and its name."""

    split: str
    sides: tuple[list[str], ...]  # the lines in each language
    digest: str  # of all its lines, as openings before there were hashes name it

    @property
    def keys(self) -> Keys:
        """Returns (2, n) hashes: of the first side, and of both in either order; of one side twice the same."""
        first, *others = (sentence_keys(side) for side in self.sides)
        both = sum(others, first) * np.uint64(2) + np.uint64(1) if others else first
        return np.stack([first, np.where(first != 0, both, first)])


def held_split(shards: Path, split: str, sentences: int = 0) -> Held | None:
    """Returns the lines of a split without its tags; None if the shards keep no text of it."""
    manifest = read_manifest(shards)
    languages = [language for language in manifest.texts.get(split, ()) if language != LABELS]
    if not languages or split == "train":
        return None
    sides = [held_out_lines(shards, split, language, sentences) for language in languages]
    for part in manifest.parts:
        prefix, ids = tag_prefix(part.tags), manifest.part_ranges(split)[part.name]
        for row in ids if prefix else ():
            if row < len(sides[0]):
                sides[0][row] = sides[0][row].removeprefix(prefix)
    return Held(split, tuple(sides), set_digest(shards, split))


@dataclass(frozen=True)
class Checked:
    """The lines beside a score: the opening, and the overlap with what the model learned from."""

    opening: Opening
    overlap: Overlap

    def __str__(self) -> str:
        return "\n".join([*([] if self.opening.chosen_on else [str(self.opening)]), str(self.overlap)])

    @property
    def counts(self) -> dict[str, int]:
        """Returns the number of openings of a set that no choices are made on, as a metric and a tag."""
        return {} if self.opening.chosen_on else {f"{self.opening.split}_openings": self.opening.count}


def open_split(
    config: Config, folder: Path, run: str, bundles: Sequence[Path], tracked: TrackedRun | None = None
) -> Checked | None:
    """Refuses `evaluate.split` if the bundles learned from it, else records its opening; before it is scored.

    Returns None if no text of the split is here. `folder`: the run's, or its evaluations'. `tracked`: its open record.

    Raises UserError: more than `evaluate.may_know` of its lines are training texts.
    """
    settings = config.evaluate
    if not has_manifest(config.shard_dir):
        return None
    held = held_split(config.shard_dir, settings.split, settings.sentences)
    return None if held is None else open_held(config, held, folder, run, bundles, tracked)


def open_held(
    config: Config, held: Held, folder: Path, run: str, bundles: Sequence[Path], tracked: TrackedRun | None = None
) -> Checked:
    """Does for any set what `open_split` does for a split."""
    way_on = f"{KEY}=1 scores it all the same"
    common = refuse_learned(bundles, held.sides, config.evaluate.may_know, f"{held.split} (set {held.digest})", way_on)
    return Checked(note_opening(config.paths, config.tracking, held, folder, run, tracked), common)


def note_opening(
    places: PathsConfig, tracking: TrackingConfig, held: Held, folder: Path, run: str, tracked: TrackedRun | None = None
) -> Opening:
    """Records that a run opened a set; returns the count with the earlier openings of the same sentences."""
    keys = held.keys
    local, registered = merged(_local(places, held.digest, keys), np.add), _registered(tracking, held, keys)
    # this machine or the server may know of more
    before = [opening for opening in merged([*local, *registered], np.maximum) if opening.lines.any()]
    recipe = recipe_of(folder) or next(
        (opening.recipe for opening in before if opening.run == run), ""
    )  # of a downloaded bundle
    record_opening(tracking, held, folder, run, recipe, tracked)
    return Opening(held.split, held.digest, recipe, len(held.sides[0]), tuple(before))


def record_opening(
    tracking: TrackingConfig, held: Held, folder: Path, run: str, recipe: str, tracked: TrackedRun | None = None
) -> None:
    """Records that a run opened a set, without the earlier openings, which ask MLflow."""
    opened, sentences = HashedTexts.of(held.keys), len(held.sides[0])
    name = f"{hashlib.sha256(opened.keys.tobytes()).hexdigest()[:12]}.keys"
    (folder / OPENED).mkdir(parents=True, exist_ok=True)
    opened.write(folder / OPENED / name)
    line = {"set": held.digest, "split": held.split, "run": run, "recipe": recipe, "by": user_and_machine(),
            "time": now(), "sentences": sentences, "keys": name}  # fmt: skip
    journal.append(folder, OPENINGS, line)
    own = [line for line in journal.lines(folder / OPENINGS) if (line["set"], line["run"]) == (held.digest, run)]
    split = next((line["split"] for line in own if line["split"] not in CHOSEN_ON), held.split)
    value = json.dumps({"recipe": recipe, "times": len(own), "split": split, **sketch(opened)})
    # a record elsewhere, of a bundle that was fetched, is beside that of the run's folder
    beside = "" if read_record(folder) else f".{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    _tag(tracking, folder, run, tracked, {TAG + held.digest + beside: value, TAGGED: "true"})


def set_digest(shards: Path, split: str) -> str:
    """Returns the name of a held-out set, from its texts: the same in all shards with it; empty without texts."""
    texts = read_manifest(shards).texts.get(split, {})
    joined = "".join(sorted(str(entry["sha256"]) for entry in texts.values()))
    return hashlib.sha256(joined.encode()).hexdigest()[:12] if texts else ""


def recipe_of(folder: Path) -> str:
    """Returns the digest of a run's recipe; empty if it is no run."""
    record = read_record(folder)
    if record is None:
        return ""
    return journal.digest({key: value for key, value in record.items() if key not in NOT_THE_RECIPE}, True)[:12]


def merged(openings: Iterable[RunOpenings], merge: Callable[[Counts, Counts], Counts]) -> list[RunOpenings]:
    """Returns each run and recipe once, with its counts of each line merged."""
    sums: dict[tuple[str, str], RunOpenings] = {}
    for opening in openings:
        key = (opening.run, opening.recipe)
        if (other := sums.get(key)) is not None:
            opening = RunOpenings(*key, merge(opening.lines, other.lines), merge(opening.tested, other.tested))
        sums[key] = opening
    return list(sums.values())


def _times(lines: Counts) -> int:
    """Returns the count that at least `PART` of the lines have: a few sentences that many sets share are no opening."""
    return int(np.sort(lines)[-math.ceil(PART * len(lines))]) if len(lines) else 0


def _local(places: PathsConfig, digest: str, keys: Keys) -> Iterator[RunOpenings]:
    """Yields the openings in the folders of this machine's runs, evaluations and promotions; a copied line once."""
    root, runs = places.local(places.root), places.local(places.runs)
    read: set[str] = set()
    for path in {*runs.glob(f"*/{OPENINGS}"), *root.glob(f"*/*/{OPENINGS}")}:
        for line in journal.lines(path):
            if (named := journal.digest(line)) in read:
                continue
            read.add(named)
            place = path.parent / OPENED / Path(str(line.get("keys", "-"))).name
            if line["set"] == digest and not place.is_file():  # from before there were hashes
                opened = np.ones(keys.shape[1], bool)
            elif place.is_file():
                opened = find(place, keys[0]) | find(place, keys[1])
            else:
                continue
            lines = opened.astype(np.int64)
            tested = lines * (line["split"] not in CHOSEN_ON)
            yield RunOpenings(str(line["run"]), str(line["recipe"]), lines, tested)


def _registered(tracking: TrackingConfig, held: Held, keys: Keys) -> list[RunOpenings]:
    """Returns the openings in MLflow's runs; none if it is away."""
    client = _client(tracking)
    if client is None:
        return []
    try:
        experiment = client.get_experiment_by_name(tracking.experiment)
        runs = [
            run
            for query in (f"tags.{TAGGED} = 'true'", f"tags.`{TAG}{held.digest}` LIKE '%'")
            for run in (client.search_runs([experiment.experiment_id], query, max_results=MOST) if experiment else [])
        ]
    except Exception:  # MLflow raises many kinds for "no answer"; those on this machine count anyway
        return []
    openings = []
    for run in {run.info.run_id: run for run in runs}.values():
        of_run = []
        for tag, text in run.data.tags.items():
            if tag.startswith(TAG):
                value, digest = json.loads(text), tag.removeprefix(TAG).partition(".")[0]
                lines = int(value["times"]) * _sketched(value, digest == held.digest, keys).astype(np.int64)
                tested = lines * (value.get("split", held.split) not in CHOSEN_ON)
                of_run.append(RunOpenings(str(run.info.run_name), str(value["recipe"]), lines, tested))
        openings += merged(of_run, np.add)
    return openings


def sketch(opened: HashedTexts) -> dict[str, Any]:
    """Returns the least hashes of a set, which a tag has room for, and whether those are all."""
    least = opened.keys[:SKETCH].astype("<u8").tobytes()
    return {"sketch": base64.b64encode(least).decode(), "whole": len(opened.keys) <= SKETCH}


def _sketched(value: dict[str, Any], same: bool, keys: Keys) -> Marks:
    """Returns (n,): True for lines that a tag's opening had, by the least of its hashes.

    Whether a line above them was there is not known: it counts if most of those below were."""
    if same or "sketch" not in value:
        return np.full(keys.shape[1], same)
    least = np.frombuffer(base64.b64decode(value["sketch"]), "<u8")
    there: Marks = np.asarray(np.isin(keys, least).any(axis=0))
    if value["whole"] or not len(least):
        return there
    below: Marks = np.asarray((keys <= least[-1]).any(axis=0) & (keys[0] != 0))
    mostly = below.any() and there[below].mean() > 0.5
    return np.asarray(there | ~below if mostly else there)


def _client(tracking: TrackingConfig) -> Any:
    """Returns MLflow's client; None if records are kept offline, or there is no database yet."""
    place = tracking.uri.removeprefix("sqlite:///")
    if tracking.offline or (place != tracking.uri and not Path(place).is_file()):
        return None
    with contextlib.suppress(UserError, ServiceError):
        return connect(resolve_paths(tracking))
    return None


def _tag(tracking: TrackingConfig, folder: Path, run: str, tracked: TrackedRun | None, tags: dict[str, str]) -> None:
    """Tags the MLflow run: by its record, or at once if the bundle was downloaded and the run's folder is elsewhere."""
    if tracked is not None:
        tracked.tags(tags)
    elif (folder / SPOOL).is_dir():
        record = TrackedRun(tracking, folder, run, system=False, begin=False)
        record.tags(tags)
        record.leave()
    elif (client := _client(tracking)) is not None:
        try:
            experiment = client.get_experiment_by_name(tracking.experiment)
            named = (
                client.search_runs([experiment.experiment_id], f"attributes.run_name = '{run}'") if experiment else []
            )
            for key, value in tags.items() if named else ():
                client.set_tag(named[0].info.run_id, key, value)
        except Exception as problem:  # of MLflow's many; the line in the folder stays
            logger.warning(f"this opening is not counted in the registry ({type(problem).__name__})")
