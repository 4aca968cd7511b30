"""Names that become folders: what is one, and what would lead elsewhere."""

import pytest

from dragoman.model.errors import UserError
from dragoman.model.names import LONGEST, check_name

PATHS = [
    "../../x",
    "/etc/x",
    "..",
    ".",
    ".hidden",
    "a/b",
    "a\\b",
    "-rf",
    "",
    " ",
    "a b",
    "a\n",
    "a\0b",
    "a\tb",
    "\ud800",
]


@pytest.mark.parametrize("value", [*PATHS, "x" * (LONGEST + 1), "ü" * (LONGEST // 2 + 1), None, 7])
def test_what_is_no_name_is_refused_with_its_key(value: object) -> None:
    with pytest.raises(UserError, match=r"^corpus\.name=.*cannot be a name"):
        check_name("corpus.name", value)


@pytest.mark.parametrize(
    "value", ["everyday-en-de-transformer_tiny", "lr-1e-05", "v1.2+x", "_new", "Überblick", "新闻"]
)
def test_a_name_of_any_script_is_one(value: str) -> None:
    assert check_name("name", value) == value
