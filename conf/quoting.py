"""Texts as values of the command line."""

import re


def quote_text(word: str, key: str) -> str:
    """Returns `KEY='...'` for one word of the command line, which begins with `key`, such as "generate.prompt=".

    So Hydra parses no commas, colons and brackets in it. A text that is quoted already, or null, is unchanged.
    """
    value = word.removeprefix(key)
    if value in ("", "null") or re.fullmatch(r"'.*'|\".*\"", value, re.DOTALL):
        return word
    # Hydra treats a backslash as an escape only before a quote, and OmegaConf before ${
    escaped = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), value)
    return f"{key}'{escaped.replace('${', chr(92) + '${')}'"
