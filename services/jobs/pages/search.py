"""The search field of the list: `state:failed owner:anna model:gru tag:nightly since:2d`, and words of the command."""

import re
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from sqlalchemy import ColumnElement

from dragoman.model.errors import UserError, unknown
from dragoman.services.jobs.service.schemas import JobQuery

FIELDS = tuple(name for name in JobQuery.model_fields if name != "sort")
SEVERAL = ("state", "tag")  # with A,B
TOKEN = re.compile(r'([a-z_]+):("[^"]*"|\S*)|"[^"]*"|\S+')


@dataclass(frozen=True)
class Search:
    """The fields, and the rest as one text."""

    fields: dict[str, Any] = field(default_factory=dict)
    text: str = ""

    def conditions(self, now: float) -> list[ColumnElement[bool]]:
        """Returns the conditions of the fields."""
        if not self.fields:
            return []
        try:
            query = JobQuery.model_validate(self.fields)
        except ValidationError as problem:
            first = problem.errors()[0]
            raise UserError(f"{first['loc'][0]}:{self.fields[str(first['loc'][0])]}: {first['msg']}") from None
        return query.filter(query.owner, now).conditions()


def read_search(text: str) -> Search:
    """Returns what a text asks for."""
    fields: dict[str, Any] = {}
    rest: list[str] = []
    for match in TOKEN.finditer(text):
        key, value = match[1], (match[2] or "").strip('"')
        if key is None or value.startswith("//"):  # a word, or an address
            rest.append(match[0].strip('"'))
        elif key not in FIELDS:
            raise unknown('field (a word with a colon stands in quotation marks, "A:B")', key, FIELDS)
        elif not value:
            raise UserError(f"{key}: is empty; write {key}:VALUE")
        elif key in SEVERAL:
            fields[key] = [*fields.get(key, []), *value.split(",")]
        else:
            fields[key] = value
    return Search(fields, " ".join(filter(None, rest)))
