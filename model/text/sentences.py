"""Cut a text into the lines that a sentence-level model can translate, so that the text can be put together again.

A model is trained on sentences; a paragraph given whole comes back short. Line breaks and the blanks between sentences
are kept as they are: `join(pieces, [piece.text ...])` of an identity translation is the text itself. Only sentences
that have no blank between them, as in Chinese, get one where their translations end otherwise.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import regex

# A sentence ends in one of two ways. After a stop of any script (Sentence_Terminal, Unicode Standard Annex 44; in Greek
# a semicolon is the question mark), closing quotes or brackets and blanks, before what can open a sentence: a capital,
# a letter of a script without capitals, a number; emoji or the sign of a list may stand before it. Or after the stops
# of Chinese, Japanese, Hindi, Burmese, Khmer, Tibetan ..., which need no blank after them; after a quote, hiragana
# continues the sentence (」と言った). A full stop between a small letter and a capital is one without its blank.
WIDE_STOPS, WIDE_CLOSERS = "。｡！？", "”」』｣）】〉》’\"')"
STROKES = "།༎।॥။។៕።᙮᱾᱿"  # danda, shad and similar marks: no blank needed
_STOP = rf"[[\p{{Sentence_Terminal}}…]--[{WIDE_STOPS}{STROKES}၊]]"
_OPENS = r"""["'“„‘«(\[¿¡]*+(?:\p{Emoji_Presentation}\s*+)*+(?:[-–—•*]\s++)?+["'“„‘«(\[¿¡]*+""" + (
    r"[[\p{Lu}\p{Lt}\p{Lo}\p{N}\p{Georgian}]--[ªº]]"
)
BOUNDARY = regex.compile(
    rf"""(?:(?<={_STOP})|(?<=\p{{Greek}};))(?P<closers>["'”“’»)\]]*)(?P<blanks>\s+)(?={_OPENS})"""
    rf"""|(?<=\p{{Ll}}{{2}}[.!?])(?P<joined>)(?=\p{{Lu}}\p{{Ll}})"""
    rf"""|(?<=[{WIDE_STOPS}{STROKES}])(?P<wide>[{WIDE_CLOSERS}]*)(?P<gap>\s*)"""
    rf"""(?=[^\s{WIDE_STOPS}{STROKES}{WIDE_CLOSERS}、，,.…])(?!\p{{N}}+[{STROKES}])(?<![{WIDE_CLOSERS}](?=[ぁ-ゟ]))""",
    regex.VERSION1,
)
# A mark that BOUNDARY could follow, with something behind it. Most lines have none, and this is found much sooner.
_INNER_STOP = regex.compile(rf"[[\p{{Sentence_Terminal}}…;{WIDE_STOPS}{STROKES}]](?=.)", regex.VERSION1 | regex.DOTALL)
ABBREVIATIONS = {
    *("mr", "mrs", "ms", "dr", "prof", "st", "vs", "no", "e.g", "i.e", "inc", "ltd", "jr", "sr", "gen", "col", "capt"),
    *("hr", "fr", "nr", "z.b", "d.h", "u.a", "usw", "bzw", "ca", "str", "bspw", "evtl", "vgl", "sog", "inkl", "u.s"),
}
CLAUSE = re.compile(r"(?<=[,;:–—])\s+")
BLANK = re.compile(r"\s+")


@dataclass(frozen=True)
class Piece:
    """A line to translate and what stands between it and the next one. An empty text is not translated."""

    text: str
    after: str


def split(text: str, longest: int = 400, language: str = "", *, sentences: bool = True) -> list[Piece]:
    """Returns the sentences of `text`; of each line the whole without `sentences`.

    One of more than `longest` characters is cut further, at a clause if it has any, else at a blank, else anywhere.
    `language` (de, pt-BR; empty: not known) brings its abbreviations.
    """
    abbreviations = _abbreviations(language)
    pieces: list[Piece] = []
    for line in text.splitlines(keepends=True):
        body = line.rstrip()
        lead = body[: len(body) - len(body.lstrip())]
        if lead:
            pieces.append(Piece("", lead))
        inner = body[len(lead) :]
        whole = _sentences(inner, abbreviations) if sentences else [Piece(inner, "")] * bool(inner)
        shorter = [part for sentence in whole for part in _shorter(sentence, longest)]
        if shorter:
            shorter[-1] = Piece(shorter[-1].text, shorter[-1].after + line[len(body) :])
        elif line[len(body) :]:
            shorter = [Piece("", line[len(body) :])]
        pieces += shorter
    return pieces


def join(pieces: Sequence[Piece], translations: Sequence[str]) -> str:
    """The translations of the pieces' texts, with the blanks and line breaks of the original between them."""
    joined = []
    for piece, translation in zip(pieces, translations, strict=True):
        # a sentence that needed no blank after it may need one in the language that it has become
        wide = _ends_in(piece.text, WIDE_STOPS)
        bare = not piece.after and piece is not pieces[-1] and (wide or _ends_in(piece.text, STROKES))
        like = _ends_in(translation, WIDE_STOPS if wide else WIDE_STOPS + STROKES)
        joined.append(translation + (" " if bare and translation and not like else piece.after))
    return "".join(joined)


def _sentences(line: str, abbreviations: frozenset[str]) -> list[Piece]:
    if not _INNER_STOP.search(line):
        return [Piece(line, "")] * bool(line)
    pieces: list[Piece] = []
    start = 0
    for match in BOUNDARY.finditer(line):
        end = next(name for name in ("closers", "joined", "wide") if match[name] is not None)
        sentence = line[start : match.end(end)]
        if _is_open(sentence, abbreviations):
            continue
        pieces.append(Piece(sentence, line[match.end(end) : match.end()]))
        start = match.end()
    if line[start:]:
        pieces.append(Piece(line[start:], ""))
    return pieces


@lru_cache(maxsize=64)
def _abbreviations(language: str) -> frozenset[str]:
    """Returns the words that a full stop follows within a sentence, in lower case: Moses' lists where there is one."""
    base = re.split("[-_]", language.lower())[0]
    if not base:
        return frozenset(ABBREVIATIONS)
    from sacremoses.corpus import NonbreakingPrefixes

    lists = NonbreakingPrefixes()
    abbreviations = lists.words(base) if base in lists.available_langs else ()
    return frozenset(ABBREVIATIONS | {word.lower() for word in abbreviations if "#" not in word})


def _ends_in(text: str, stops: str) -> bool:
    return text.rstrip(WIDE_CLOSERS)[-1:] in tuple(stops)


def _is_open(sentence: str, abbreviations: frozenset[str]) -> bool:
    """Returns True if the stop at the end belongs to an abbreviation, an initial or an ordinal number ("am 3. Mai")."""
    if not sentence.endswith("."):
        return False
    word = "".join(sentence[:-1].rsplit(maxsplit=1)[-1:])
    word = word.lstrip("\"'“„‘«([")
    initial = len(word) == 1 and word.upper() != word.lower()  # İ in lower case is two characters
    word = word.lower()
    return word in abbreviations or initial or (word.isdigit() and len(word) <= 2)


def _shorter(piece: Piece, longest: int) -> list[Piece]:
    """The piece in parts of at most `longest` characters."""
    parts: list[Piece] = []
    rest = piece.text
    while len(rest) > longest:
        cut = _last(CLAUSE, rest, longest) or _last(BLANK, rest, longest) or (longest, longest)
        parts.append(Piece(rest[: cut[0]], rest[cut[0] : cut[1]]))
        rest = rest[cut[1] :]
    if rest or not parts:
        return [*parts, Piece(rest, piece.after)]
    return [*parts[:-1], Piece(parts[-1].text, parts[-1].after + piece.after)]


def _last(pattern: re.Pattern[str], text: str, longest: int) -> tuple[int, int] | None:
    """The last match of `pattern` in the first `longest` characters, not at the very beginning."""
    last = None
    for match in pattern.finditer(text, 0, longest + 1):
        if match.start() > 0:
            last = match.span()
    return last
