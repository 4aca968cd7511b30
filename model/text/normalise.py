"""Text as every part of Dragoman sees it: the one normalisation of sharding, keys, questions and the endpoint.

In this order: characters that nobody can see are taken out, C1 controls that are Windows-1252 punctuation decoded as
Latin-1 become that punctuation (as HTML reads them), Unicode normalisation, white space of every kind (U+0085, U+00A0,
U+2028, TAB ...) folded to single spaces, ends stripped.

Unicode's categories say what is invisible: controls (Cc), format characters (Cf: soft hyphen, byte order mark, word
joiner, marks of direction) and lone surrogates (Cs). Some of Cf mean something in their place and stay there alone:

- zero-width non-joiner and joiner after a letter or mark of a script whose letters join (Persian, Hindi, Sinhala);
- the vowel separator after a letter of Mongolian;
- the joiner between two emoji, and the tags of a flag (England, Scotland, Wales);
- one zero-width space between two letters of a script without blanks (Khmer, Thai), where it is the border of words;
- signs that are written (Arabic number sign and its kin, joiners of Egyptian hieroglyphs).

Variation selectors are marks (Mn) and stay; so do private use characters.
"""

import re
import unicodedata

import regex

from dragoman.model.text.letters import JOINER, NON_JOINER, VOWEL_SEPARATOR, ZERO_WIDTH_SPACE, is_blankless

FORMS = ("NFC", "NFKC")

# U+0085 (next line) counts as white space and 0x85 is left out of the repair for that reason.
_WINDOWS_1252 = {
    code: bytes([code]).decode("cp1252", errors="ignore") for code in range(0x80, 0xA0) if code not in (0x85,)
}
# Cc, Cf and Cs without white space and without the signs of Cf that are written; a test compares with Unicode's tables.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]+"
)
_JOINED = regex.compile(
    r"[[\p{L}\p{M}]--[\p{Latin}\p{Greek}\p{Cyrillic}\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Inherited}\p{Common}]]",
    regex.VERSION1,
)
_MONGOLIAN = regex.compile(r"\p{Mongolian}")
_BEFORE_JOINER, _EMOJI = regex.compile(r"[\p{ExtPict}\p{EMod}\ufe0f]"), regex.compile(r"\p{ExtPict}")
_FLAG, _TAGS = "\U0001f3f4", regex.compile("[\U000e0020-\U000e007e]{1,32}\U000e007f")
_SPACE = "\t\x0b-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # every space but U+0020, \n
_ODD_SPACE = re.compile(f"[{_SPACE}]")


def normalise(text: str, form: str = "NFC") -> str:
    """Returns one line of text in the form that tokenizers read; line feeds inside it become spaces. Idempotent.

    `form` is NFC or NFKC (Unicode Standard Annex 15).
    """
    return normalise_lines(text.replace("\n", " "), form)


def normalise_lines(text: str, form: str = "NFC") -> str:
    """Apply `normalise` to every line of `text` at once; the line feeds (and only they) stay where they are.

    Clean text costs a few searches over the whole, so that a million clean lines take under two seconds.
    """
    printable = text.replace("\n", "").isprintable()  # in a third of the time that the two searches take
    if not printable:
        text = _drop_invisible(text)
    if not unicodedata.is_normalized(form, text):  # type: ignore[arg-type]  # the stubs want a literal
        # NFC and NFKC never join across a line feed (it composes with nothing), so the whole may go at once.
        text = unicodedata.normalize(form, text)  # type: ignore[arg-type]  # as above
    if not printable and _ODD_SPACE.search(text):
        text = _ODD_SPACE.sub(" ", text)
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \n", "\n").replace("\n ", "\n").strip(" ")


def has_invisible(text: str) -> bool:
    """Returns True if `normalise` would take out or repair an invisible character."""
    return _drop_invisible(text) != text


def has_loose_space(text: str) -> bool:
    """Returns True if `normalise` would fold white space or strip it from the ends."""
    return text != text.strip() or "  " in text or _ODD_SPACE.search(text) is not None


def _drop_invisible(text: str) -> str:
    return _INVISIBLE.sub(_keep_meaning, text)


def _keep_meaning(match: re.Match[str]) -> str:
    """Returns what stays of a run of invisible characters."""
    run, text = match.group(), match.string
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    if before == _FLAG and _TAGS.fullmatch(run):
        return run
    if before and after and ZERO_WIDTH_SPACE in run and is_blankless(after) and is_blankless(before):
        return ZERO_WIDTH_SPACE
    kept = ""
    if (
        (run[0] in (NON_JOINER, JOINER) and _JOINED.fullmatch(before))
        or (run[0] == VOWEL_SEPARATOR and _MONGOLIAN.fullmatch(before))
        or (run == JOINER and _BEFORE_JOINER.fullmatch(before) and _EMOJI.fullmatch(after))
    ):
        kept = run[0]
    return kept + "".join(_WINDOWS_1252.get(ord(character), "") for character in run)
