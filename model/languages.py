"""Languages by their codes (BCP 47, by langcodes): one parser, one comparison, one fallback for the whole program.

Codes are compared as languages, not as texts: `pt_BR`, `pt-br` and `PT-BR` are one, and `zho-Hans` is `zh-Hans`. A
requested code finds the nearest one on offer: `en-US` finds `en`, `pt` finds `pt-BR`, but `zh-Hant` does not find
`zh-Hans`.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

import langcodes
from langcodes.tag_parser import LanguageTagError

from dragoman.model.errors import UserError

NEAR = 10  # CLDR's distance: 4 de-AT and de, 5 pt-PT and pt-BR; 14 ms and id, 54 zh-Hant and zh-Hans
SHORTEST_NAME = 4  # letters
# Prefixes of Unicode's names for letters of scripts without spaces, and a language that uses each.
SCRIPTS = {
    "CJK": "zh",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "THAI": "th",
    "LAO": "lo",
    "KHMER": "km",
    "MYANMAR": "my",
    "TIBETAN": "bo",
}
PRIVATE_REGIONS = re.compile("(?i)aa|q[m-z]|x[a-z]|zz")  # of no country (ISO 3166)
ENOUGH = 10_000  # letters; enough to tell the script
# Written like Chinese, though CLDR counts them as other languages.
CHINESE = frozenset({"yue", "wuu", "lzh", "gan", "hak", "hsn"})


MANY = "mul"  # a side with several languages, by ISO 639-2: the target of a multilingual model
REWRITTEN = "x-rewrite"  # private use (BCP 47): the same language, as a model writes it again


@lru_cache(maxsize=1024)
def standard_code(code: str) -> str:
    """Returns the code in BCP 47's spelling; a text that is no code is returned unchanged."""
    try:
        return langcodes.standardize_tag(code)
    except LanguageTagError:
        return code


def language_name(code: str) -> str:
    """Returns the English name of a language by its BCP 47 code; the code itself if it has none."""
    try:
        name = langcodes.Language.get(code).display_name("en")
    except LanguageTagError:
        return code
    return code if name.startswith("Unknown language") else name


@lru_cache(maxsize=1024)
def base_language(code: str) -> str:
    """Returns the code of the language alone, without script and region: `zh` for zh_CN, zho_Hans, cmn, yue and wuu."""
    try:
        language = langcodes.Language.get(langcodes.standardize_tag(code, macro=True)).language or code
    except LanguageTagError:
        return code
    return "zh" if language in CHINESE else language


def language_by_script(texts: Iterable[str]) -> str:
    """Returns a language that the texts' letters suggest: one written without spaces, else `en`.

    Kana among ideographs mean Japanese.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(SCRIPTS.get(_script(letter), "en") for letter in text if letter.isalpha())
        if counts.total() >= ENOUGH:
            break
    if counts["ja"] and counts["ja"] + counts["zh"] > counts["en"]:
        return "ja" if 10 * counts["ja"] > counts["zh"] else "zh"
    return max(counts, key=lambda code: counts[code], default="en")


def same_language(first: str, other: str) -> bool:
    """Returns True if two codes mean the same, however they are written."""
    return standard_code(first) == standard_code(other)


def is_language(code: str) -> bool:
    """Returns True if the code names a language that BCP 47 has, or one for private use."""
    return langcodes.tag_is_valid(code.replace("_", "-"))


@lru_cache(maxsize=4096)
def nearest(language: str, offered: tuple[str, ...]) -> str | None:
    """Returns the one of `offered` that matches `language`: the same code, else the nearest relative, or None."""
    for code in offered:
        if same_language(language, code):
            return code
    try:
        codes = {standard_code(code): code for code in reversed(offered) if is_language(code)}
        match = langcodes.closest_supported_match(language, list(codes), NEAR)
    except LanguageTagError:
        return None
    return codes.get(match) if match else None


def split_pair(pair: str) -> tuple[str, str]:
    """Returns source and target language of `en-de`, `en-pt_BR`, `en-pt-BR` or `zh-Hans-en`, spelled as in the pair.

    The target of a language to itself (`en-en`: summaries, corrections) has a code of its own, `en-x-rewrite`.
    """
    ways = _split_ways(pair)
    # A region or script has a capital (BR, Hans), a language has none: en-pt-BR is en and pt-BR, not en-pt and br.
    by_case = [way for way in ways if _starts_lower(way[1]) and not any(map(_starts_lower, way[0].split("-")[1:]))]
    source, target = next(iter([*by_case, *ways]), ("", ""))
    if not source:
        raise UserError(f"pair={pair}: {_explain_pair(pair.split('-'))}")
    return source, f"{source}-{REWRITTEN}" if same_language(source, target) else target


def is_single(pair: str) -> bool:
    """Returns True if `pair` is one language, such as `en` or `pt-BR`, and not two."""
    return "-" not in pair or (is_language(pair) and not any(_starts_lower(second) for _, second in _split_ways(pair)))


def languages_of(pair: str) -> tuple[str, ...]:
    """Returns the one or two languages of a recorded pair; for an unusual pair, its two halves."""
    if is_single(pair):
        return (pair,)
    try:
        return split_pair(pair)
    except UserError:
        source, _, target = pair.partition("-")
        return source, target


def is_rewriting(languages: Sequence[str]) -> bool:
    """Returns True if the source and target of a pair are one language, apart from regions."""
    return len(set(map(base_language, languages))) == 1 and len(languages) == 2


def same_pair(first: str, other: str) -> bool:
    """Returns True if two pairs have the same languages, however they are written."""
    return [*map(standard_code, languages_of(first))] == [*map(standard_code, languages_of(other))]


def check_language(code: str) -> str:
    """Returns the code of `pair` if a language has it; else the error says what to write."""
    if not is_language(code):
        raise UserError(f"pair={code}: {_unknown(code)}")
    return code


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    return re.split(r"[ -]", unicodedata.name(letter, ""))[0]


def _split_ways(pair: str) -> list[tuple[str, str]]:
    """Returns all ways to read two languages in a pair."""
    cuts = [place for place, letter in enumerate(pair) if letter == "-"]
    ways = [(pair[:cut], pair[cut + 1 :]) for cut in cuts]
    return [way for way in ways if all(map(is_language, way))]


def _starts_lower(code: str) -> bool:
    return code[:1].islower()


def _explain_pair(parts: list[str]) -> str:
    if len(parts) == 1:
        names = re.findall(r"[^\W_]+", parts[0])
        such = "-".join(names) if len(names) == 2 and all(map(is_language, names)) else "en-de"
        return f"must name two languages, source first, such as pair={such}"
    if len(parts) == 2 and all(map(_code_of_name, parts)):
        return f"takes codes, not names; pair={'-'.join(map(_code_of_name, parts))}"
    wrong = next((part for part in parts if not is_language(part)), parts[0])
    return _unknown(wrong)


def _unknown(code: str) -> str:
    code_of_name = _code_of_name(code)
    if code_of_name:
        return f"{code!r} is a name, its code is {code_of_name}"
    if code_of_name := _language_of_country(code):
        return f"{code!r} is the code of a country, that of its language is {code_of_name}"
    return f"{code!r} is the code of no language (BCP 47: en, de, pt-BR, zh-Hans)"


def _language_of_country(code: str) -> str:
    """Returns the language that most people of a country speak (CLDR's likely subtags); empty if it is no country."""
    if not re.fullmatch("[a-z]{2}", code.lower()) or PRIVATE_REGIONS.fullmatch(code) or not is_language(f"und-{code}"):
        return ""
    return langcodes.Language.get(f"und-{code}").maximize().language or ""


def _code_of_name(name: str) -> str:
    """Returns the code of a language's English name; empty if there is none."""
    if is_language(name):
        return name
    if len(name) < SHORTEST_NAME:
        return ""
    try:
        return langcodes.find(name).to_tag()
    except LookupError:
        return ""
