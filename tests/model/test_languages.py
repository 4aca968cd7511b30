"""Languages by their codes: pairs read, codes compared and found."""

import pytest

from dragoman.model.errors import UserError
from dragoman.model.inference.bleu import tokeniser
from dragoman.model.languages import (
    base_language,
    is_single,
    language_by_script,
    language_name,
    languages_of,
    nearest,
    same_pair,
    split_pair,
    standard_code,
)


@pytest.mark.parametrize(
    ("pair", "languages"),
    [
        ("en-de", ("en", "de")),
        ("en-pt_BR", ("en", "pt_BR")),
        ("en-pt-BR", ("en", "pt-BR")),
        ("pt-BR-en", ("pt-BR", "en")),
        ("zh-Hans-en", ("zh-Hans", "en")),
        ("en-zho_Hans", ("en", "zho_Hans")),
        ("en-US-de-DE", ("en-US", "de-DE")),
        ("src-tgt", ("src", "tgt")),
        ("en-en", ("en", "en-x-rewrite")),
        ("en-en-x-rewrite", ("en", "en-x-rewrite")),
        ("de-de", ("de", "de-x-rewrite")),
        ("de-de-x-rewrite", ("de", "de-x-rewrite")),
        ("pt_BR-pt-BR", ("pt_BR", "pt_BR-x-rewrite")),
    ],
)
def test_a_pair_is_two_languages_with_their_regions_and_scripts(pair: str, languages: tuple[str, str]) -> None:
    assert split_pair(pair) == languages_of(pair) == languages
    assert not is_single(pair)


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("xx-yy", "'xx' is the code of no language"),
        ("en-jp", "'jp' is the code of a country, that of its language is ja"),
        ("CZ-en", "'CZ' is the code of a country, that of its language is cs"),
        ("english-german", "pair=en-de"),
        ("en-german", "pair=en-de"),
        ("de_fr", "pair=de-fr"),
        ("en", "pair=en-de"),
        ("en-", "'' is the code of no language"),
    ],
)
def test_what_is_no_pair_is_refused_with_what_to_write(pair: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        split_pair(pair)
    assert str(refused.value).startswith(f"pair={pair}: ") and said in str(refused.value)


def test_one_language_may_have_a_region() -> None:
    assert all(map(is_single, ("en", "pt-BR", "zh-Hans", "zh_CN")))
    assert not is_single("en-de")
    assert languages_of("pt-BR") == ("pt-BR",)
    assert languages_of("xx-yy") == ("xx", "yy"), "a record of before is read all the same"


@pytest.mark.parametrize(
    ("asked", "offered", "found"),
    [
        ("pt-BR", "pt_BR", True),
        ("pt", "pt_BR", True),
        ("EN-us", "en", True),
        ("zho_Hans", "zh-Hans", True),
        ("cmn", "zh", True),
        ("iw", "he", True),
        ("zh-Hant", "zh-Hans", False),
        ("nl", "de", False),
        ("", "en", False),
        ("no such", "en", False),
    ],
)
def test_a_code_finds_the_same_language_and_its_nearest_kin(asked: str, offered: str, found: bool) -> None:
    assert nearest(asked, ("fi", offered)) == (offered if found else None)


def test_the_same_code_is_found_before_its_kin() -> None:
    assert nearest("pt-PT", ("pt-BR", "pt-PT")) == "pt-PT"
    assert standard_code("zho_hans") == "zh-Hans" and standard_code("?") == "?"
    assert same_pair("en-pt_BR", "EN-pt-br") and not same_pair("en-pt", "en-pt-BR")


def test_the_tokeniser_of_bleu_goes_by_the_language_not_by_its_spelling() -> None:
    assert {base_language(code) for code in ("zh", "zh_CN", "zho_Hans", "cmn", "yue", "ZH-TW")} == {"zh"}
    assert {tokeniser("auto", code) for code in ("zh_CN", "zho_Hans", "cmn", "yue")} == {"zh"}
    assert tokeniser("auto", "jpn") == tokeniser("auto", "ja")
    assert tokeniser("auto", "tha") == tokeniser("auto", "khm") == "char"
    assert tokeniser("auto", "de-AT") == "13a"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我今天去公园", "zh"),
        ("今日は公園へ行きました", "ja"),
        ("ฉันรักเธอ", "th"),
        ("ខ្ញុំស្រលាញ់អ្នក", "km"),
        ("ຂ້ອຍຮັກເຈົ້າ", "lo"),
        ("ငါမင်းကိုချစ်တယ်", "my"),
        ("Tokyo (東京) is large", "en"),
        ("Он видит дом", "en"),
        ("... 12", "en"),
        ("", "en"),
    ],
)
def test_letters_tell_which_texts_are_written_without_spaces(text: str, language: str) -> None:
    assert language_by_script([text]) == language


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
