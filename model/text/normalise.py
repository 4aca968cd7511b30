"""Text as every part of Dragoman sees it: the one normalisation that sharding and the endpoint share.

In this order: what nobody can see or mean is taken out (control characters, zero-width space, word joiner, byte
order mark, soft hyphen, lone surrogates), C1 controls that are Windows-1252 punctuation decoded as
Latin-1 become that punctuation (as HTML reads them), Unicode normalisation, white space of every kind (U+0085, U+00A0,
U+2028, TAB ...) folded to single spaces, ends stripped. Zero-width joiner and non-joiner stay: they carry meaning.
"""

import re
import unicodedata

FORMS = ("NFC", "NFKC")

# U+0085 (next line) counts as white space and 0x85 is left out of the repair for that reason.
_WINDOWS_1252 = {
    code: bytes([code]).decode("cp1252", errors="ignore") for code in range(0x80, 0xA0) if code not in (0x85,)
}
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b\u2060\ufeff\ud800-\udfff]")
_SPACE = "\t\x0b-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # every space but U+0020, \n
_ODD_SPACE = re.compile(f"[{_SPACE}]")


def normalise(text: str, form: str = "NFC") -> str:
    """One line of text in the form that tokenizers read; line feeds inside it become spaces. Idempotent.

    `form` is NFC or NFKC (Unicode Standard Annex 15).
    """
    return normalise_lines(text.replace("\n", " "), form)


def normalise_lines(text: str, form: str = "NFC") -> str:
    """`normalise` of every line of `text` at once; the line feeds (and only they) stay where they are.

    Clean text costs a few searches over the whole, so that a million clean lines take under two seconds.
    """
    printable = text.replace("\n", "").isprintable()  # in a third of the time that the two searches take
    if not printable and _INVISIBLE.search(text):
        text = _INVISIBLE.sub(_seen, text)
    if not unicodedata.is_normalized(form, text):  # type: ignore[arg-type]  # the stubs want a literal
        # NFC and NFKC never join across a line feed (it composes with nothing), so the whole may go at once.
        text = unicodedata.normalize(form, text)  # type: ignore[arg-type]  # as above
    if not printable and _ODD_SPACE.search(text):
        text = _ODD_SPACE.sub(" ", text)
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \n", "\n").replace("\n ", "\n").strip(" ")


def has_invisible(text: str) -> bool:
    """Whether `normalise` would take out or repair a character that nobody can see."""
    return _INVISIBLE.search(text) is not None


def has_loose_space(text: str) -> bool:
    """Whether `normalise` would fold white space or strip it from the ends."""
    return text != text.strip() or "  " in text or _ODD_SPACE.search(text) is not None


def _seen(match: re.Match[str]) -> str:
    return _WINDOWS_1252.get(ord(match.group()), "")
