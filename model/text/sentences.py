"""Cut a text into the lines that a sentence-level model can translate, so that the text can be put together again.

A model is trained on sentences; a paragraph given whole comes back short. Line breaks and the blanks between sentences
are kept as they are: `join(pieces, [piece.text ...])` of an identity translation is the text itself. Only Chinese and
Japanese sentences, which have no blanks between them, get one where their translations end otherwise.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Ends a sentence: . ! ? … with closing quotes or brackets, then blanks, then what can open a sentence. Or the stops of
# Chinese and Japanese, where no blank need follow; after a quote, hiragana goes on with the sentence (」と言った).
WIDE_STOPS, WIDE_CLOSERS = "。｡！？", "」』｣）】〉》”’\"')"
BOUNDARY = re.compile(
    r"""(?<=[.!?…])(?P<closers>["'”“’»)\]]*)(?P<blanks>\s+)(?=["'“„‘«(\[¿¡]*[A-ZÄÖÜÀ-ÞА-Я0-9])"""
    rf"""|(?<=[{WIDE_STOPS}])(?P<wide>[{WIDE_CLOSERS}]*)(?P<gap>\s*)"""
    rf"""(?=[^\s{WIDE_STOPS}{WIDE_CLOSERS}、，,.…])(?<![{WIDE_CLOSERS}](?=[ぁ-ゟ]))"""
)
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


def split(text: str, longest: int = 400) -> list[Piece]:
    """Sentences of `text`; one of more than `longest` characters is cut further, at a clause if it has any, else at a
    blank, else anywhere."""
    pieces: list[Piece] = []
    for line in text.splitlines(keepends=True):
        body = line.rstrip()
        lead = body[: len(body) - len(body.lstrip())]
        if lead:
            pieces.append(Piece("", lead))
        sentences = _sentences(body[len(lead) :])
        shorter = [part for sentence in sentences for part in _shorter(sentence, longest)]
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
        bare = not piece.after and piece is not pieces[-1] and _ends_wide(piece.text) and translation
        joined.append(translation + (" " if bare and not _ends_wide(translation) else piece.after))
    return "".join(joined)


def _sentences(line: str) -> list[Piece]:
    pieces: list[Piece] = []
    start = 0
    for match in BOUNDARY.finditer(line):
        end = "closers" if match["closers"] is not None else "wide"
        sentence = line[start : match.end(end)]
        if _is_open(sentence):
            continue
        pieces.append(Piece(sentence, line[match.end(end) : match.end()]))
        start = match.end()
    if line[start:]:
        pieces.append(Piece(line[start:], ""))
    return pieces


def _ends_wide(text: str) -> bool:
    return text.rstrip(WIDE_CLOSERS)[-1:] in tuple(WIDE_STOPS)


def _is_open(sentence: str) -> bool:
    """Whether the stop at the end belongs to an abbreviation, an initial or an ordinal number ("am 3. Mai")."""
    if not sentence.endswith("."):
        return False
    word = sentence[:-1].split()[-1] if sentence[:-1].split() else ""
    word = word.lstrip("\"'“„‘«([").lower()
    return word in ABBREVIATIONS or (len(word) == 1 and word.isalpha()) or (word.isdigit() and len(word) <= 2)


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
