"""`translate.attention`: writes a picture of the first sentences' maps, or JSON of all of them.

A picture's rows are the words of the translation, its columns those of the source. The JSON is a list with one object
per line: its number from 0, source and text, and for each sentence the tokens of both sides, the alignment as pairs of
token positions, and the weights.
"""

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from dragoman.model.alignment.attention_map import END, AttentionMap
from dragoman.model.files import atomic_path
from dragoman.model.inference.translator import Translation
from dragoman.services.commands.output import file_errors, open_output

PICTURES = (".png", ".svg", ".pdf")
SUFFIXES = (*PICTURES, ".json")
KEY = "translate.attention"
MOST_MAPS = 12  # in a picture
LONGEST_TITLE = 70  # characters
Show = Callable[[int, str | None, Translation], None]  # a line's number, the line (None: not UTF-8), its translation
logger = logging.getLogger(__name__)


@contextlib.contextmanager
def attention_file(path: str | None) -> Iterator[Show]:
    """Yields a function that takes translated lines in order; the file is complete at the end of the block."""
    if path is None:
        yield lambda _number, _line, _translation: None
    elif path.lower().endswith(".json"):
        with json_list(path) as show:
            yield show
    else:
        with picture(Path(path)) as show:
            yield show


@contextlib.contextmanager
def json_list(path: str) -> Iterator[Show]:
    """Writes a list of objects as they come."""
    with open_output(path, "translate", "attention") as out:
        out.write("[")
        between = "\n"

        def show(number: int, line: str | None, translation: Translation) -> None:
            nonlocal between
            record = {
                "line": number,
                "source": line,
                "text": translation.text,
                "truncated": translation.truncated,
                "sentences": [map_.record() for map_ in translation.attention],
            }
            out.write(between + json.dumps(record, ensure_ascii=False))
            between = ",\n"

        yield show
        out.write("\n]\n")


@contextlib.contextmanager
def picture(path: Path) -> Iterator[Show]:
    """Draws the first MOST_MAPS sentences."""
    maps: list[AttentionMap] = []
    left_out = 0

    def show(_number: int, _line: str | None, translation: Translation) -> None:
        nonlocal left_out
        room = MOST_MAPS - len(maps)
        maps.extend(translation.attention[:room])
        left_out += len(translation.attention[room:])

    yield show
    if not maps:
        logger.warning(f"{KEY}: {path} is not written: no line had a translation to show")
        return
    draw(maps, path)
    if left_out:
        logger.warning(f"{KEY}: {path} shows the first {len(maps)} sentences; {left_out} more would be in a .json")


def draw(maps: list[AttentionMap], path: Path) -> None:
    """Writes the picture atomically."""
    from dragoman.model.alignment.attention_plots import maps_picture, save

    with file_errors(KEY, path), atomic_path(path) as part:  # it keeps the suffix, which sets the format
        save(maps_picture(maps, [title(map_) for map_ in maps]), part)


def title(map_: AttentionMap) -> str:
    """Returns the words of the translation, and the head and reading."""
    text = " ".join(token for token in map_.target_tokens if token != END)
    return f"{text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + '…'}  ({map_.head}, {map_.reading})"
