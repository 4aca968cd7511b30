"""Messages of ICU: plurals and selects, whose branches are translated and whose syntax is not.

{count, plural, =0 {no dogs} one {# dog} other {# dogs}}
"""

import regex

_SYNTAX = r"[\s\p{L}\p{N}=:_-]*+"  # beside branches: their names, offset:1
_HEAD = regex.compile(rf"\{{\s*+[\p{{L}}\p{{N}}_.]{{1,80}}+\s*+,\s*+(?:plural|selectordinal|select)\s*+,{_SYNTAX}")
# A quote before a brace ('{') makes text of all up to the next quote.
_BRANCH = regex.compile(rf"(?P<branch>\{{(?:[^{{}}']++|'[{{}}][^']*+'?+|'(?![{{}}])|(?&branch))*+\}}){_SYNTAX}")


def read_message(text: str, start: int) -> tuple[list[tuple[bool, str]], int] | None:
    """Returns the message that begins at `start` as (translatable, text), and its end; None if there is none."""
    match = _HEAD.match(text, start)
    parts: list[tuple[bool, str]] = []
    literal = start
    while match and (branch := _BRANCH.match(text, match.end())):
        begin, end = branch.span("branch")
        parts += [(False, text[literal : begin + 1]), (True, text[begin + 1 : end - 1])]
        match, literal = branch, end - 1
    if match is None or not parts or text[match.end() : match.end() + 1] != "}":
        return None
    return [*parts, (False, text[literal : match.end() + 1])], match.end() + 1
