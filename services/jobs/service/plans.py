"""Makes the plan of a submission: what it reads and writes, what it needs of the cluster, how long it takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, func, select

from dragoman.conf.again import key_of
from dragoman.model.errors import UserError
from dragoman.services.from_home import is_open
from dragoman.services.jobs.ledger.database import Measurement
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.options import OWNER, owned_words
from dragoman.services.jobs.planning.planner import Planner, RefusedPlanError
from dragoman.services.jobs.planning.refusals import as_jobs
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.scheduling.room import MANY, FreeResources, Needs
from dragoman.services.jobs.service.ownership import Ownership

NEWEST = 200  # measurements for an estimate
# used for every plan, so it is made once
NEWEST_MEASUREMENT = select(func.max(Measurement.id)).where(Measurement.cluster == bindparam("cluster"))


@dataclass(frozen=True)
class Request:
    """A command that is to become a job."""

    owner: str
    verb: str
    words: Sequence[str]
    admin: bool = False  # submitted with an admin's rights
    early: bool = False  # its inputs may not exist yet, because an earlier job makes them


class Plans:
    """Makes plans for one cluster."""

    def __init__(self, ledger: Ledger, planner: Planner, ownership: Ownership, cluster: str) -> None:
        """`cluster` names the cluster of the measurements."""
        self.ledger, self.planner, self.ownership, self.cluster = ledger, planner, ownership, cluster
        self._measured: tuple[int, list[Measurement]] = 0, []  # the id of the newest, and all that are used

    def make(self, request: Request, capacity: Capacity | None) -> dict[str, Any]:
        """Returns the plan, with the expected `seconds` for each number of workers."""
        plan = self._ask(request, sum(node.gpus for node in capacity.nodes) if capacity else 0.0)
        self.ownership.check_model(plan, request.owner, request.admin)
        if capacity is not None and capacity.nodes:  # a range may exceed what the cluster ever holds
            most = FreeResources(capacity.nodes).holds(plan["cpus"], plan["gpus"], MANY)
            plan["choices"] = [workers for workers in plan["choices"] if workers <= most] or plan["choices"][:1]
        times = {workers: expected_seconds(plan, workers, self.measured()) for workers in plan["choices"]}
        plan["seconds"] = {str(workers): seconds for workers, seconds in times.items() if seconds is not None}
        return plan

    def measured(self) -> list[Measurement]:
        """Returns this cluster's measurements, newest first."""
        last, runs = self._measured
        with self.ledger.database.read() as session:
            newest = session.scalar(NEWEST_MEASUREMENT, {"cluster": self.cluster}) or 0
            if newest != last:  # they are read for every plan, and the end of a job adds one
                ours = select(Measurement).where(Measurement.cluster == self.cluster)
                runs = list(session.scalars(ours.order_by(Measurement.id.desc()).limit(NEWEST)))
                self._measured = newest, runs
        return runs

    def _ask(self, request: Request, gpus: float) -> dict[str, Any]:
        """Returns the planner's answer, without what it says about another owner's files, even in a refusal.

        Shards that the owner has not, and that no job made, are read where they are."""
        owner, verb, words = request.owner, request.verb, list(request.words)
        visible: Sequence[str] = ()
        if verb != "shard" and is_open(verb, words):
            if request.early:
                raise UserError(f"{verb}: comes after another job; say which shards, with that job's corpus and pair")
            visible = [*self.ownership.visible(owner), self.planner.roots[0]]  # there may be none
        plan: dict[str, Any] = {}
        try:
            plan = self.planner.plan(verb, words, gpus, request.early, owner, visible)
            places, refusal = plan.get("places", []), ""
        except RefusedPlanError as problem:
            places, refusal = problem.places, as_jobs(str(problem))
            if owned_words(words, owner) != words:
                refusal = refusal.replace(f" {OWNER}={owner}", "")  # nobody typed it
        self.ownership.grant(owner, places, request.admin)
        if plan:
            return plan
        named = any(key_of(word) == "paths.shards" for word in words)
        common = "" if named else self._made_by_no_job(owner, places)
        if not common:
            raise UserError(refusal)
        return self._ask(replace(request, words=[*words, f"paths.shards={common}"]), gpus)

    def _made_by_no_job(self, owner: str, places: Sequence[Mapping[str, str]]) -> str:
        """Returns the shards beside the owners' folders that have the name of those which a job would read."""
        read = next((Path(place["path"]) for place in places if place["key"] == "paths.shards"), None)
        shards = Path(self.planner.roots[0]).resolve() / "shards"
        if read is None or read.parent != shards / owner or read.exists():
            return ""
        common = shards / read.name
        return str(common) if (common / "manifest.json").is_file() and not self.ownership.owners(common) else ""


def check_room(plan: Mapping[str, Any], capacity: Capacity) -> None:
    """Raises UserError if a plan needs more than the whole cluster has."""
    room, least = FreeResources(capacity.nodes), plan["choices"][0]
    if not room.fits(Needs((least,), plan["cpus"], plan["gpus"])):
        gpus = f" and {least * plan['gpus']:g} GPUs" if plan["gpus"] else ""
        raise UserError(
            f"cluster.workers={least}: needs {least * plan['cpus']:g} CPUs{gpus}; the cluster has {room.cpus:g} "
            f"CPUs and {room.gpus:g} GPUs in all. Ask for fewer workers, or join more nodes to it"
        )


def expected_seconds(
    plan: Mapping[str, Any], workers: int, measured: Sequence[Measurement], done: int = 0
) -> float | None:
    """Returns the seconds that a job takes with so many workers after `done` of its steps; None if nobody knows.

    `measured` has the cluster's ended jobs, newest first. A training takes a step as long as the newest of its shape,
    or as its operations take at the speed of the newest training of another; more workers share the work evenly. It
    takes no longer than its time limit.
    """
    runs = [run for run in measured if run.verb == plan["verb"]]
    alike = [run for run in runs if run.shape == plan["shape"]]
    if plan.get("steps") is None:
        return alike[0].training + alike[0].around if alike else None
    steps = int(plan["steps"])
    trained = [run for run in [*alike, *runs] if run.steps > 0 and run.training > 0 and run.flops > 0]
    limit: float | None = plan.get("limit")  # seconds, by `train.max_minutes`
    if not trained:
        return limit
    run = next((run for run in trained if run.shape == plan["shape"] and run.workers == workers), trained[0])
    size = 1.0 if run.shape == plan["shape"] else float(plan["flops"]) / max(1, steps) / run.flops
    step = run.training / run.steps * size * run.workers / workers
    seconds = max(0, steps - done) * step + run.around
    return min(seconds, limit) if limit else seconds
