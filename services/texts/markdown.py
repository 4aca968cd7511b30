"""Markdown as runs: the inline parts of its blocks are translated, everything else stays as written."""

import itertools
import re
from collections.abc import Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from dragoman.model.errors import UserError
from dragoman.services.texts.binding import DEEPEST, bind
from dragoman.services.texts.markup import read_html
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.protected import has_letter
from dragoman.services.texts.runs import Form, Mask, Node, Run, Tag

DEEPEST_INLINE = 10  # links and emphasis inside of each other; brackets further inside are text
_FRONT_MATTER = re.compile(r"(---|\+\+\+)\r?\n(?:(?!\1).*\n)*\1.*(?:\n|$)")
_MODULE = re.compile(  # of MDX
    r"(?:(?:import\s[^\n]{1,500}\sfrom\s|import\s|export\s[^\n]{1,500}\sfrom\s)['\"][^'\"\n]*['\"];?"
    r"|export\s(?:default|const|let|var|function|class|async)\s[^\n]*)(?:\n(?=import\s|export\s)[^\n]*+)*+"
)
_BOX = re.compile(r"(?:!!!|\?\?\?\+?|===!?\+?)(?: ++[\w-]++)*+(?: +\"(?P<title>[^\"\n]*)\")? *")  # of MkDocs
MOST_TOKENS = 200_000  # of blocks: a paragraph or a cell is three


def read_markdown(text: str, options: TextOptions) -> list[Node]:
    """Returns a document as runs and what stands between them."""
    head = _FRONT_MATTER.match(text)
    body = text[head.end() :] if head else text
    parser = _parser()
    lines = body.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    nodes: list[Node] = [head.group()] if head else []
    place = 0
    row, column = -1, 0  # where the last cell of a table's row was found
    for token in parser.parse(body):
        if token.type == "html_block" and token.map:
            begin, end = starts[token.map[0]], starts[min(token.map[1], len(lines))]
            if begin >= place:
                nodes += [body[place:begin], *read_html(body[begin:end], options)]
                place = end
        if token.type != "inline" or not token.map or not token.content or _MODULE.fullmatch(token.content):
            continue
        first, last = token.map
        if row != first:
            row, column = first, 0
        found = _find_content(lines, starts, token.content, first, last, max(column, place - starts[first]))
        if found is None:
            continue
        column = found[-1][1] - starts[first] if len(found) == 1 else 0
        begin, end = found[0][0], found[-1][1]
        glue = [_line_end(body, *one) + body[one[1] : other[0]] for one, other in itertools.pairwise(found)]
        nodes += [body[place:begin], _make_run(token, glue, body[begin:end])]
        place = end
    nodes.append(body[place:])
    return [node for node in nodes if node != ""]


def read_inline(text: str) -> list[Token]:
    """Returns what the text of a block holds."""
    return [child for token in _parser().parseInline(text) for child in token.children or ()]


@cache
def _parser() -> MarkdownIt:
    """Returns a parser whose work and tokens are bounded by the text's length.

    It reads every bracket that opens a link again for each that it is inside of, and fills the rows of tables up.
    """

    def check_blocks(state: StateBlock, _start: int = 0, _end: int = 0, _silent: bool = False) -> bool:
        if len(state.tokens) > MOST_TOKENS:
            raise UserError(f"Markdown: its blocks and table cells are more than {MOST_TOKENS} tokens; split the text")
        return False

    def bound_links(state: StateCore) -> None:
        state.md.options["maxNesting"] = DEEPEST_INLINE

    def read_box(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        """Reads a title; the block that is indented below it is read as any other."""
        begin, stop = state.bMarks[start] + state.tShift[start], state.eMarks[start]
        box = _BOX.fullmatch(state.src, begin, stop)
        if box is None or state.is_code_block(start):
            return False
        if silent:
            return True
        indent, following = state.sCount[start] + 4, start + 1
        while following < end and (state.isEmpty(following) or state.sCount[following] >= indent):
            following += 1
        state.push("box_open", "", 1).map = [start, following]
        if box["title"]:
            title = state.push("inline", "", 0)
            title.content, title.map, title.children = box["title"], [start, start + 1], []
        kept = state.blkIndent, state.lineMax
        state.blkIndent, state.lineMax = indent, following
        state.md.block.tokenize(state, start + 1, following)
        state.blkIndent, state.lineMax = kept
        state.push("box_close", "", -1)
        state.line = following
        return True

    parser = MarkdownIt("commonmark", {"maxNesting": DEEPEST}).enable(["table", "strikethrough"]).disable("text_join")
    parser.block.ruler.before("table", "check_blocks", check_blocks)
    parser.block.ruler.before("table", "box", read_box, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.core.ruler.after("block", "bound_links", bound_links)
    return parser


def _find_content(
    lines: Sequence[str], starts: Sequence[int], content: str, first: int, last: int, column: int
) -> list[tuple[int, int]] | None:
    """Returns where the lines of a block's content stand in the document, without the marks before them."""
    spans = []
    wanted = content.split("\n")
    number = first
    for part in wanted:
        while number < last:
            at = lines[number].find(part, column if number == first else 0)
            if at >= 0:
                spans.append((starts[number] + at, starts[number] + at + len(part)))
                number += 1
                break
            number += 1
        else:
            return None
    return spans


def _line_end(body: str, start: int, end: int) -> str:
    """Returns the blanks or the backslash at a line's end, which its content has lost."""
    line = body[start:end]
    return line[len(line.rstrip(" ")) :] or ("\\" if line.endswith("\\") else "")


class _Inline:
    """The children of an inline token as one text with masks and tags."""

    def __init__(self, glue: Sequence[str]) -> None:
        self.glue = list(glue)
        self.text: list[str] = []
        self.length = 0
        self.masks: list[Mask] = []
        self.tags: list[Tag] = []
        self.open: list[Tag] = []

    def add(self, text: str) -> None:
        self.text.append(text)
        self.length += len(text)

    def mask(self, raw: str, anchor: bool, kind: str = "code", inner: Sequence[Node] = ()) -> None:
        self.masks.append(Mask(self.length, self.length + 1, kind, raw, anchor, inner))
        self.add({"soft": "\n", "border": "\u2029"}.get(kind, "\ufffc"))

    def start(self, opening: str) -> None:
        tag = Tag(self.length, self.length, opening, "", len(self.open) + 1)
        self.tags.append(tag)
        self.open.append(tag)

    def end(self, closing: str) -> None:
        if self.open:
            tag = self.open.pop()
            tag.end, tag.closing = self.length, closing


def _make_run(token: Token, glue: Sequence[str], raw_text: str) -> Run:
    found = _Inline(glue)
    ends: list[str] = []
    skipped = at = 0
    for child in token.children or ():
        if child.type == "link_close":
            closing = ends.pop()
            if closing:
                found.end(closing)
            skipped -= not closing
        elif skipped:
            continue
        elif child.type == "link_open" and child.markup == "autolink":
            found.mask(f"<{child.attrGet('href')}>".replace("<mailto:", "<"), False, "url")
            ends.append("")
            skipped += 1
        elif child.type == "link_open":
            found.start("[")
            ends.append(f"]({_address(child, 'href')})")
        elif child.type.endswith("_open"):
            found.start(child.markup)
        elif child.type.endswith("_close"):
            found.end(child.markup)
        elif child.type == "code_inline":
            raw, at = _code(child, token.content, at)
            lines = raw.split("\n")
            ends_of = [found.glue.pop(0) if found.glue else "\n" for _ in lines[1:]]
            found.mask(lines[0] + "".join(end + line for end, line in zip(ends_of, lines[1:], strict=True)), False)
        elif child.type == "image":
            alt = child.content
            inner: list[Node] = ["![", bind(Run(alt, name="alt")), f"]({_address(child, 'src')})"]
            raw = f"![{alt}]({_address(child, 'src')})"
            found.mask(raw, True, "image", inner if has_letter(alt) else ())
        elif child.type == "softbreak":
            found.mask(found.glue.pop(0) if found.glue else "\n", True, "soft")
        elif child.type == "hardbreak":
            found.mask(found.glue.pop(0) if found.glue else "  \n", True, "border")
        elif child.type == "html_inline":
            found.mask(child.content, True, "tag")
        elif child.type == "text_special":
            found.mask(child.markup, not child.content.isalnum(), "escape")
        else:
            found.add(child.content)
    return bind(
        Run("".join(found.text), found.masks, found.tags, Form("markdown"), raw=raw_text, tokens=token.children or ())
    )


def _code(token: Token, content: str, start: int) -> tuple[str, int]:
    """Returns a code span as it is written in a block's content from `start` on, and where it ends there."""
    marks = token.markup
    runs = re.compile(f"(?<!`){marks}(?!`)").finditer(content, start)
    for first, last in itertools.pairwise(runs):
        if content[first.end() : last.start()].replace("\n", " ").strip(" ") == token.content.strip(" "):
            return content[first.start() : last.end()], last.end()
    return f"{marks}{token.content}{marks}", start


def _address(token: Token, name: str) -> str:
    """Returns an address with its title as they stand in brackets."""
    address = str(token.attrGet(name) or "")
    if any(sign in address for sign in " ()<>") or not address:
        address = f"<{address}>"
    title = token.attrGet("title")
    return f'{address} "{str(title).replace(chr(34), chr(92) + chr(34))}"' if title else address
