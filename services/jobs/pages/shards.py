"""The pages of shards: their list, and of each its sources, what cleaning dropped, records, lengths, and its users."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from sqlalchemy import String, cast, func, select

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.runs import paths
from dragoman.model.shards.manifest import MANIFEST, Manifest
from dragoman.model.shards.verify import verified_at
from dragoman.model.untrusted import finite, read_object, whole
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages.histogram import histogram
from dragoman.services.jobs.pages.site import Link, Site
from dragoman.services.jobs.service.shard_folders import MADE, Folder, check_own
from dragoman.services.jobs.service.shard_records import Hits, Record, pattern_of, read_records, search_records
from dragoman.services.jobs.service.shardings import sharding_run
from dragoman.services.jobs.service.tracking import Version

ROWS = 50  # folders of the list
RECORDS = 20  # of a page
SOURCES = 200  # files in the table
SHOWN = 600  # characters of a text
USERS = 20  # jobs and versions that used the shards
LOOKED_AT = 5000  # newest jobs among which users are looked for
USE = ("train", "evaluate", "compare", "promote", "unpack", "synthesize")  # commands that read shards
SPLITS = ("train", "valid", "test", "gate")  # as they are shown
CLEANING = "cleaning.json"
LARGEST_CLEANING = 4 << 20


@dataclass(frozen=True)
class Sample:
    """A pair that a rule dropped or kept, and the pair that it repeats."""

    file: str
    line: int
    source: str
    target: str
    score: float | None = None
    beside: "Sample | None" = None


@dataclass(frozen=True)
class Rule:
    """A rule of cleaning: how many training records it dropped, and how many of these no other rule drops."""

    name: str
    dropped: int
    alone: int | None = None
    samples: list[Sample] = field(default_factory=list)


@dataclass(frozen=True)
class Cleaning:
    """The result of cleaning the training records, by rule; `chosen` stands beside the kept ones."""

    kept: int
    samples: list[Sample]
    rules: list[Rule]
    chosen: Rule | None
    others: Mapping[str, Mapping[str, int]]  # held-out split -> rule -> records

    @property
    def dropped(self) -> int:
        return sum(rule.dropped for rule in self.rules)

    @property
    def total(self) -> int:
        return max(1, self.kept + self.dropped)


def address(folder: Folder) -> str:
    """Returns the address of a folder's page."""
    return f"/shards/{quote(folder.name)}"


def listing(site: Site, person: Person, text: str, start: int) -> dict[str, Any]:
    """Returns what the list shows: folders whose name, corpus or languages hold `text`, from number `start` on."""
    every = site.shards.all(person)
    found = [one for one in map(site.shards.read, every) if text.lower() in _words(one)] if text else every
    rows = list(map(site.shards.read, found[start : start + ROWS]))
    makers = _makers(site, person, rows)
    more = start + ROWS
    return {
        **{"rows": rows, "makers": makers, "text": text, "total": len(found), "any": bool(every), "start": start},
        **{"address": address, "more": f"/shards?{urlencode({'q': text, 'start': more})}" if more < len(found) else ""},
    }


def _words(folder: Folder) -> str:
    facts = folder.summary
    return (
        f"{folder.name} {facts.corpus} {'-'.join(facts.languages)} {facts.tokenizer}".lower() if facts else folder.name
    )


def _makers(site: Site, person: Person, folders: list[Folder]) -> dict[str, Job]:
    """Returns name -> the newest job that wrote the folder, of those that the user may see."""
    names = {f"{MADE}{one.path}": one.name for one in folders}
    newest = select(func.max(Job.seq)).where(Job.verb == "shard", Job.run.in_(names)).group_by(Job.run)
    with site.operations.ledger.database.read() as session:
        found = session.scalars(select(Job).where(Job.seq.in_(newest))).all()
    return {names[job.run]: job for job in found if person.sees_job(job)}


def card(
    site: Site, person: Person, folder: Folder, split: str, first: int, text: str, begin: int, rule: str
) -> dict[str, Any]:
    """Returns what a folder's page shows: records of `split` from `first` on or, where there is a `text`, those that
    hold it from `begin` on; and beside the kept pairs those that `rule` dropped.

    Raises:
        UserError: the manifest cannot be read, or there is no such split.
        HTTPException: 429, too many searches.
    """
    manifest = site.shards.manifest(folder)
    splits = {name: manifest.splits[name].records for name in sorted(manifest.splits, key=_turn)}
    split = split or next(iter(splits), "")
    chosen = manifest.split(split)
    records, hits, trouble = list[Record](), None, ""
    try:
        if text:
            hits = search_records(folder, split, text, begin)
            records = hits.records
        else:
            records = read_records(folder, split, first, RECORDS)
    except UserError as problem:
        trouble = str(problem)
    sides = {"source": chosen.source_lengths, "target": chosen.target_lengths}
    if manifest.kind == "monolingual":
        sides = {manifest.languages[0]: chosen.source_lengths}
    models, away = _models(site, folder.summary.digest if folder.summary else "")
    own = {"folder": folder, "manifest": manifest, "facts": folder.summary, "address": address(folder)}
    return {
        **{**own, "split": split, "first": first, "text": text, "records": records, "hits": hits, "trouble": trouble},
        **{"shown": lambda one: shorten(one, text, manifest.normalisation), "labels": manifest.sides, "rows": RECORDS},
        **{"chart": histogram(manifest.length_bounds, sides), "cleaning": cleaning(folder, manifest, rule)},
        **{"sources": manifest.sources[:SOURCES], "more_sources": max(0, len(manifest.sources) - SOURCES)},
        **{"links": _links(site, person, folder), "jobs": _users(site, person, folder), "models": models, "away": away},
        **{"splits": splits, "verified": _verified(site, folder, manifest)},
        "next": _next(hits, first + RECORDS, chosen.records),
    }


def _turn(split: str) -> int:
    return SPLITS.index(split) if split in SPLITS else len(SPLITS)


def _next(hits: Hits | None, following: int, total: int) -> dict[str, int]:
    """Returns the words of the address of the next page; empty at the end."""
    if hits is not None:
        return {"begin": hits.following} if hits.following is not None else {}
    return {"record": following} if following < total else {}


def shorten(text: str, found: str, form: str) -> list[tuple[str, bool]]:
    """Returns a text in parts, each with True if it is what was looked for; long texts are cut around the first."""
    pattern = pattern_of(found, form) if found else None
    match = pattern.search(text) if pattern else None
    start = max(0, match.start() - SHOWN // 2) if match and len(text) > SHOWN else 0
    cut = text[start : start + SHOWN]
    parts, place = [("… ", False)] if start else [], 0
    for one in pattern.finditer(cut) if pattern else ():
        parts += [(cut[place : one.start()], False), (one.group(), True)]
        place = one.end()
    return [*parts, (cut[place:], False), *([(" …", False)] if start + SHOWN < len(text) else [])]


def cleaning(folder: Folder, manifest: Manifest, rule: str) -> Cleaning:
    """Returns the drops by rule, from the record beside the shards, else from the manifest, which has no samples."""
    record: dict[str, Any] = {}
    try:
        check_own(folder.path / CLEANING, LARGEST_CLEANING)
        record = read_object(folder.path / CLEANING)
    except UserError:  # text of one language has none
        pass
    told, kept = _section(record.get("rules")), _section(record.get("kept"))
    dropped = manifest.dropped.get("train", {})
    rules = [_rule(name, number, _section(told.get(name))) for name, number in dropped.items()]
    rules.sort(key=lambda one: -one.dropped)
    chosen = next((one for one in rules if one.name == rule), None) or next((one for one in rules if one.samples), None)
    train = manifest.splits.get("train")
    others = {split: drops for split, drops in manifest.dropped.items() if split != "train" and drops}
    return Cleaning(train.records if train else 0, _samples(kept.get("samples")), rules, chosen, others)


def _rule(name: str, dropped: int, told: Mapping[str, Any]) -> Rule:
    return Rule(name, dropped, whole(told.get("alone")), _samples(told.get("samples")))


def _section(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _samples(found: Any) -> list[Sample]:
    return [_sample(one) for one in found[:RECORDS] if isinstance(one, Mapping)] if isinstance(found, list) else []


def _sample(one: Mapping[str, Any]) -> Sample:
    source, target = (str(one.get(side, ""))[:SHOWN] for side in ("source", "target"))
    beside = _sample(one["beside"]) if isinstance(one.get("beside"), Mapping) else None
    return Sample(
        str(one.get("file", "")), whole(one.get("line")) or 0, source, target, finite(one.get("score")), beside
    )


def _links(site: Site, person: Person, folder: Folder) -> list[Link]:
    """Returns the job and the MLflow run that made the shards."""
    job = _makers(site, person, [folder]).get(folder.name)
    if job is None:
        return []
    found = [Link("Made by job", job.id, f"/jobs/{job.id}")]
    run = sharding_run(job)
    tracked = read_object(run / paths.TRACKED) if run else {}
    if tracked.get("run_id"):
        page = site.tracking.run_page(str(tracked["run_id"]))
        found.append(Link("MLflow run", str(tracked.get("name") or tracked["run_id"]), page, outside=True))
    return found


def _users(site: Site, person: Person, folder: Folder) -> list[Job]:
    """Returns the newest jobs whose plan reads the folder, of the newest LOOKED_AT that the user may see."""
    place = json.dumps(str(folder.path))  # as the plan's JSON has it
    query = select(Job).where(Job.verb.in_(USE), cast(Job.plan, String).contains(place, autoescape=True))
    query = query.where(Job.seq > select(func.max(Job.seq)).scalar_subquery() - LOOKED_AT, *person.jobs())
    with site.operations.ledger.database.read() as session:
        return list(session.scalars(query.order_by(Job.seq.desc()).limit(USERS)))


def _models(site: Site, digest: str) -> tuple[list[Version], str]:
    """Returns the registered versions that were trained on these shards, and why they are not known."""
    if not digest or not site.tracking.address:
        return [], ""
    try:
        return site.tracking.versions_with("manifest_hash", digest, USERS), ""
    except ServiceError as problem:
        return [], str(problem)


def _verified(site: Site, folder: Folder, manifest: Manifest) -> float | None:
    """Returns when a training last compared every byte with the manifest; None if not since they were made."""
    memory = Path(site.home) / "verified"
    named = Path(site.home) / "shards" / folder.name  # as commands name it, links not followed
    found = [verified_at(path, manifest, memory) for path in dict.fromkeys((folder.path, named))]
    return max((one for one in found if one is not None), default=None)


def unfinished(folder: Folder) -> str:
    """Returns why a folder without facts has none."""
    return folder.problem or f"There is no {MANIFEST} yet: sharding has not finished, or was interrupted."
