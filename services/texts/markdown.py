"""Markdown as runs: the inline parts of its blocks are translated, everything else stays as written."""

import itertools
import re
from collections.abc import Callable, MutableMapping, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, autolink, backtick, image, link
from markdown_it.token import Token

from dragoman.model.errors import UserError
from dragoman.services.texts.binding import bind
from dragoman.services.texts.markup import Reader, add_tag, read_html
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.protected import FORMULA, has_letter
from dragoman.services.texts.runs import Form, Mask, Node, Run
from dragoman.services.texts.trees import DEEPEST, Element, Grower, Text

Env = MutableMapping[str, Any]  # of the parser: references of links
Rule = Callable[[StateInline, bool], bool]
MARKS = "*"  # with which the names of Markdown's own elements begin
SPECIAL = re.compile(r"[*_\[\]<>&`~\\!#|+=:-]")  # what would be markup without its backslash
DEEPEST_INLINE = 10  # links and emphasis inside of each other; brackets further inside are text
_FRONT_MATTER = re.compile(r"(---|\+\+\+)\r?\n(?:(?!\1).*\n)*\1.*(?:\n|$)")
_MODULE = re.compile(  # of MDX
    r"(?:(?:import\s[^\n]{1,500}\sfrom\s|import\s|export\s[^\n]{1,500}\sfrom\s)['\"][^'\"\n]*['\"];?"
    r"|export\s(?:default|const|let|var|function|class|async)\s[^\n]*)(?:\n(?=import\s|export\s)[^\n]*+)*+"
)
_BOX = re.compile(r"(?:!!!|\?\?\?\+?|===!?\+?)(?: ++[\w-]++)*+(?: +\"(?P<title>[^\"\n]*)\")? *")  # of MkDocs
# What a block begins with that is no text: alerts of GitHub, fences of containers.
_ALERT = re.compile(r"(?:\[![A-Za-z]++\][+-]?|:{3,}+[ \t]*+[\w-]*+(?:[ \t]*+\{[^{}\n]*+\})?)[ \t]*+\n?")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # as the parser counts them
_FORMULA = re.compile(FORMULA)
MOST_TOKENS = 200_000  # of blocks: a paragraph or a cell is three


def read_markdown(text: str, options: TextOptions) -> list[Node]:
    """Returns a document as runs and what stands between them."""
    head = _FRONT_MATTER.match(text)
    body = text[head.end() :] if head else text
    parser = _parser()
    lines = _LINE.findall(body.replace("\0", "\ufffd"))  # as the parser does
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    nodes: list[Node] = [_keep(head.group())] if head else []
    reader = Reader(options, Form("markdown"))
    cells = Reader(options, Form("markdown", bars=True))
    place = 0
    row, column = -1, 0  # where the last cell of a table's row was found
    references: Env = {}
    cell = False
    for token in parser.parse(body, references):
        module = token.type == "inline" and _MODULE.fullmatch(token.content)
        if token.map and (module or token.type in ("html_block", "fence", "code_block")):
            begin, end = starts[token.map[0]], starts[min(token.map[1], len(lines))]
            if begin >= place:
                block = body[begin:end]
                nodes += [
                    body[place:begin],
                    *(read_html(block, options) if token.type == "html_block" else [_keep(block)]),
                ]
                place = end
            continue
        if token.type != "inline" or not token.map or not token.content:
            cell = token.type in ("th_open", "td_open")
            continue
        if alert := _ALERT.match(token.content):
            token.content = token.content[alert.end() :]
            token.children = read_inline(token.content, references)
        first, last = token.map
        if row != first:
            row, column = first, 0
        content = token.content.replace("|", "\\|") if cell else token.content
        places = _find_content(lines, starts, content, first, last, max(column, place - starts[first]))
        if places is None:
            unread = "its place in the document was not found"
            nodes += [Run(token.content, unread=unread)] if has_letter(token.content) else []
            continue
        column = places[-1][1] - starts[first] if len(places) == 1 else 0
        begin, end = places[0][0], places[-1][1]
        glue = [_line_end(body, *piece) + body[piece[1] : other[0]] for piece, other in itertools.pairwise(places)]
        nodes += [body[place:begin], _make_run(token, glue, body[begin:end], cells if cell else reader, references)]
        place = end
    nodes.append(body[place:])
    return [node for node in nodes if node != ""]


def _keep(block: str) -> Node:
    """Returns a block that is not translated, as a unit."""
    return Run("\ufffc", [Mask(0, 1, "code", block, anchor=True)], raw=block) if has_letter(block) else block


def read_inline(text: str, references: Env) -> list[Token]:
    """Returns what the text of a block holds; `references`: what the parser has found in the document."""
    return [child for token in _parser().parseInline(text, references) for child in token.children or ()]


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

    def read_formula(state: StateInline, silent: bool) -> bool:
        """Reads $x$ and $$x$$, in which no other sign is markup."""
        formula = _FORMULA.match(state.src, state.pos) if state.src[state.pos] == "$" else None
        if formula is None:
            return False
        state.pos = formula.end()
        if not silent:
            state.push("code_inline", "", 0).content = formula.group()
        return True

    def read_comment(state: StateInline, silent: bool) -> bool:
        """Reads a comment up to its first end; the parser's own pattern goes past the end in ---> and comes back."""
        start = state.pos
        if not state.src.startswith("<!--", start) or state.html_terminator_last("-->") < start + 2:
            return False
        state.pos = state.src.index("-->", start + 2) + 3
        if not silent:
            state.push("html_inline", "", 0).content = state.src[start : state.pos]
        return True

    parser = MarkdownIt("commonmark", {"maxNesting": DEEPEST}).enable(["table", "strikethrough"]).disable("text_join")
    parser.block.ruler.before("table", "check_blocks", check_blocks)
    parser.block.ruler.before("table", "box", read_box, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    for name, rule in (("backticks", backtick), ("link", link), ("image", image), ("autolink", autolink)):
        parser.inline.ruler.at(name, _noting(rule))
    parser.inline.ruler.before("html_inline", "comment", read_comment)
    parser.inline.ruler.before("escape", "formula", read_formula)
    parser.core.ruler.after("block", "bound_links", bound_links)
    return parser


def _find_content(
    lines: Sequence[str], starts: Sequence[int], content: str, first: int, last: int, column: int
) -> list[tuple[int, int]] | None:
    """Returns where the lines of a block's content stand in the document, without the marks before them."""
    spans, numbers = [], iter(range(first, last))
    for part in content.split("\n"):
        for number in numbers:
            at = lines[number].find(part, column if number == first else 0)
            if at >= 0:
                spans.append((starts[number] + at, starts[number] + at + len(part)))
                break
        else:
            return None
    return spans


def _line_end(body: str, start: int, end: int) -> str:
    """Returns the blanks or the backslash at a line's end, which its content has lost."""
    line = body[start:end]
    return line[len(line.rstrip(" ")) :] or ("\\" if line.endswith("\\") else "")


def _make_run(token: Token, glue: Sequence[str], raw: str, reader: Reader, references: Env) -> Node:
    grower, ends = Grower(), iter(glue)
    autolink = False
    started = token.content.partition("\\")[0].strip()  # 2020\. begins no list

    def written(text: str) -> str:
        """Returns what the parser has read as the document has it, with the marks at the beginnings of lines."""
        first, *lines = reader.form.write(text).split("\n")
        return first + "".join(next(ends, "\n") + line for line in lines)

    for child in token.children or ():
        name = MARKS + child.markup
        as_written = str(child.meta.get("raw", child.content))
        if autolink:
            autolink = child.type != "link_close"
            if not autolink:
                grower.add(Mask(0, 0, "url", as_written, seen=True))
        elif child.type == "link_open":
            autolink = child.markup == "autolink"
            if not autolink:
                grower.start(Element(MARKS, "["))
        elif child.type == "link_close":
            grower.end(MARKS, written(as_written))
        elif child.nesting > 0:
            grower.start(Element(name, child.markup))
        elif child.nesting < 0:
            grower.end(name, child.markup)
        elif child.type == "code_inline":
            grower.add(Mask(0, 0, "code", written(as_written), seen=has_letter(as_written)))
        elif child.type == "image":
            mask = Mask(0, 0, "image", written(as_written), anchor=True)
            if has_letter(child.content) and "\n" not in as_written:
                end = as_written[2 + len(child.content) :]
                mask.inner = ["![", bind(Run(child.content)), _closing(end, child.content)]
            grower.add(mask)
        elif child.type in ("softbreak", "hardbreak"):
            soft = child.type == "softbreak"
            grower.add(Mask(0, 0, "soft" if soft else "border", next(ends, "\n" if soft else "  \n"), anchor=True))
        elif child.type == "html_inline":
            add_tag(grower, written(child.content), reader.form, within=MARKS)
        elif child.type == "text_special" and (SPECIAL.search(child.content) or started.isdigit()):
            grower.add(Mask(0, 0, "escape", child.markup, anchor=True))
        else:
            grower.add(Text(child.content, child.content))
    read = dict.fromkeys((end for end in glue if end != "\n"), "\n") | ({"\\|": "|"} if reader.form.bars else {})
    return reader.run(reader.free(grower.unwind()).children, raw, (token.children or (), references, read))


def _noting(rule: Rule) -> Rule:
    """Returns a rule of the parser that also notes how its token is written, of a link what stands behind its text."""

    def noting(state: StateInline, silent: bool) -> bool:
        start = state.pos
        if not rule(state, silent):
            return False
        if not silent and state.tokens and rule is not link:
            state.tokens[-1].meta.setdefault("raw", state.src[start : state.pos])
        elif not silent and rule is link:
            end = state.md.helpers.parseLinkLabel(state, start, True)
            state.tokens[-1].meta["raw"] = _closing(state.src[end : state.pos], state.src[start + 1 : end])
        return True

    return noting


def _closing(closing: str, label: str) -> str:
    """Returns what stands behind the text of a link; if that is its reference too, with the reference."""
    return f"][{label}]" if closing in ("]", "][]") else closing
