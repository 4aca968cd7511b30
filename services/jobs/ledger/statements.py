"""Frequent queries and updates, prepared once and without the mapper: building one takes longer than running it."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Select, bindparam, func, insert, select, update

from dragoman.services.jobs.ledger.database import Attempt, Base, Change, Job, Measurement, Token
from dragoman.services.jobs.states import UNENDED

JOBS, CHANGES, ATTEMPTS, MEASUREMENTS = (
    Base.metadata.tables[table.__tablename__] for table in (Job, Change, Attempt, Measurement)
)
ANY_TOKEN = select(Token.digest).limit(1)
NEWEST = select(func.max(CHANGES.c.id))
NOTE, ENTER, BEGIN, MEASURED = map(insert, (CHANGES, JOBS, ATTEMPTS, MEASUREMENTS))
NUMBER = update(JOBS).where(JOBS.c.seq == bindparam("entered"))  # gives a job that is entered its id
SET_ATTEMPT = update(ATTEMPTS).where(ATTEMPTS.c.job == bindparam("of"), ATTEMPTS.c.number == bindparam("nth"))
# updates a job of the version that was read; sets the columns of its parameters
SET = update(JOBS).where(*(JOBS.c[name] == bindparam(f"read_{name}") for name in ("seq", "state", "version")))
SET = SET.values(version=JOBS.c.version + 1)


def oldest(states: Collection[str], each: int) -> Select[Any]:
    """Returns the `seq` of the oldest jobs of every owner in some states."""
    place = func.row_number().over(partition_by=JOBS.c.owner, order_by=JOBS.c.seq).label("place")
    numbers = select(JOBS.c.seq, place).where(JOBS.c.state.in_(sorted(states))).subquery()
    return select(numbers.c.seq).where(numbers.c.place <= each)


# the number of an owner's unfinished jobs
UNFINISHED = select(func.count()).where(JOBS.c.owner == bindparam("whose"), JOBS.c.state.in_(sorted(UNENDED)))
