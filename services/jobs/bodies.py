"""The base of the REST interface's bodies and answers, and the types of their fields."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

NAME = r"^[\w.+-]+$"
JobName = Annotated[str, Field(min_length=1, max_length=160, pattern=NAME)]  # its id, or its name
Owner = Annotated[str, Field(min_length=1, max_length=160, pattern=NAME)]
Tag = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_.+-]+$")]
Moment = Annotated[str, Field(max_length=40)]  # an age such as 2d, or a date
Cursor = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Strict(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


class View(BaseModel):
    """An answer, which is made from an object with the same attributes."""

    model_config = ConfigDict(from_attributes=True)
