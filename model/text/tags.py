"""Tags: words such as `<2de>` or `<bt>` before a source sentence that tell a network what to do with it.

A tag names the target language (Johnson et al. 2017), back-translated text (Caswell et al. 2019) or a domain. Each is
one piece of the vocabulary, and no text of a corpus is ever split or joined into it.
"""

import re
from collections.abc import Iterable, Sequence

from dragoman.model.errors import UserError
from dragoman.model.text.subwords import SubwordTokenizer
from dragoman.model.text.tokenizer import SPECIAL_PIECES, Tokenizer

TAG = re.compile(r"<[\w.+-]{1,32}>")


def tag_prefix(tags: Iterable[str]) -> str:
    """Returns the text that stands before a sentence with these tags: `<2de> <bt> `; empty without tags."""
    return "".join(f"{tag} " for tag in tags)


def check_tag(tag: str, key: str) -> None:
    """Raises UserError if `tag`, a value of `key`, is no tag."""
    if not TAG.fullmatch(tag) or tag in SPECIAL_PIECES or tag.startswith("<0x"):
        raise UserError(
            f"{key}={tag}: not a tag; such as <2de>, <bt> or <news>, and none of {', '.join(SPECIAL_PIECES)}"
        )


def check_pieces(tokenizer: Tokenizer, tags: Sequence[str], key: str) -> None:
    """Raises UserError if one of the `tags` is no piece of the vocabulary; `key` names the tokenizer."""
    tags_known = tokenizer.tags if isinstance(tokenizer, SubwordTokenizer) else frozenset()
    if missing := [tag for tag in tags if tag not in tags_known]:
        raise UserError(
            f"{key}: its vocabulary has no piece for {', '.join(missing)} of corpus.parts; choose a tokenizer of a mix "
            f"with these tags, or leave {key.partition('=')[0]} out to train one"
        )
