"""Plain text as one run: what must not change is masked, tags that stand in it stay around their words."""

from dragoman.services.texts.binding import bind
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.runs import Node, Run


def read_plain(text: str, options: TextOptions) -> list[Node]:
    """Returns the text as a run."""
    return [bind(Run(text, raw=text))]
