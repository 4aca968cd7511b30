"""Plain text as one run: what must not change is masked, tags that stand in it stay around their words."""

from services.texts.options import TextOptions
from services.texts.protected import find_masks
from services.texts.runs import Mask, Node, Run, Tag

MOST_MASKS = 5_000  # in a text; one with more is probably no language, and is copied


def read_plain(text: str, options: TextOptions) -> list[Node]:
    """Returns the text as a run."""
    masks = list(find_masks(text))
    tags, kept = _pair_tags(text, masks)
    return [Run(text, kept, tags)]


def _pair_tags(text: str, masks: list[Mask]) -> tuple[list[Tag], list[Mask]]:
    return [], masks
