"""The words that the types of the REST interface share: names, moments, and their base classes."""

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dragoman.model.errors import UserError

NAME = r"^[\w.+-]+$"
JobId = Annotated[str, Field(max_length=40, pattern=NAME)]
Owner = Annotated[str, Field(min_length=1, max_length=160, pattern=NAME)]
Tag = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_.+-]+$")]
SavedName = Annotated[str, Field(min_length=1, max_length=64, pattern=NAME)]
ProjectOrNone = Annotated[str, Field(max_length=64, pattern=r"^[\w.+-]*$")]  # empty: none
Moment = Annotated[str, Field(max_length=40)]  # an age such as 2d, or a date


def is_saved_name(text: str) -> bool:
    """Returns True if a kept item may have this name."""
    return len(text) <= 64 and re.match(NAME, text) is not None


def check_saved_name(text: str) -> None:
    """Raises UserError if a kept item may not have this name."""
    if not is_saved_name(text):
        raise UserError(f"{text!r}: a name has letters, digits and . + - _, at most 64")


class Strict(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


class View(BaseModel):
    """An answer, which is made from an object with the same attributes."""

    model_config = ConfigDict(from_attributes=True)


class Nothing(Strict):
    """An empty object."""


class Problem(BaseModel):
    """The body of every refusal."""

    error: str
