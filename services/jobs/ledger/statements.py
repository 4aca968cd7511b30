"""What is asked and written often, made once and without the mapper: making a statement takes longer than asking it."""

from collections.abc import Collection
from typing import Any, TypeVar

from sqlalchemy import Select, bindparam, func, insert, select, update

from services.jobs.ledger.tables import Base, Change, Job
from services.jobs.states import UNENDED

JOBS, CHANGES = (Base.metadata.tables[table.__tablename__] for table in (Job, Change))
NEWEST = select(func.max(CHANGES.c.id))
NOTE, ENTER = insert(CHANGES), insert(JOBS)
SET = (  # of a job as it was read; whatever columns it is executed with
    update(JOBS)
    .where(
        JOBS.c.seq == bindparam("read_seq"),
        JOBS.c.state == bindparam("read_state"),
        JOBS.c.version == bindparam("read_version"),
    )
    .values(version=JOBS.c.version + 1)
)
Chosen = TypeVar("Chosen", bound=Select[Any])


def among(query: Chosen, states: Collection[str], owner: str | None, before: int | None) -> Chosen:
    """The query of jobs, of some of them."""
    if states:
        query = query.where(JOBS.c.state.in_(sorted(states)))
    if owner is not None:
        query = query.where(JOBS.c.owner == owner)
    if before is not None:
        query = query.where(JOBS.c.seq < before)
    return query


def oldest(states: Collection[str], each: int) -> Select[Any]:
    """`seq` of the oldest jobs of every owner in some states."""
    place = func.row_number().over(partition_by=JOBS.c.owner, order_by=JOBS.c.seq).label("place")
    found = select(JOBS.c.seq, place).where(JOBS.c.state.in_(sorted(states))).subquery()
    return select(found.c.seq).where(found.c.place <= each)


def unended(owner: str) -> Select[Any]:
    """How many jobs of an owner have not ended."""
    return select(func.count()).where(JOBS.c.owner == owner, JOBS.c.state.in_(sorted(UNENDED)))
