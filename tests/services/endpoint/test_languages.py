"""What languages are called."""

import pytest

from dragoman.services.endpoint.languages import language_name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        *(("en", "English"), ("ja", "Japanese"), ("no", "Norwegian"), ("sw", "Swahili"), ("tok", "Toki Pona")),
        *(("zh-hant", "Chinese (Traditional)"), ("pt_br", "Portuguese (Brazil)")),
        *(("xx", "xx"), ("abcdefgh", "abcdefgh"), ("en-a-b", "en-a-b")),
    ],
)
def test_a_language_has_its_english_name_and_an_unknown_one_its_code(code: str, name: str) -> None:
    assert language_name(code) == name
