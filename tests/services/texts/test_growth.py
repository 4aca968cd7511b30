"""What strangers send is read in a time that grows as its length does: fuzzed, and in the patterns themselves.

python -m tests.services.texts.test_growth [SECONDS] [WORDS...]    # looks for growth; WORDS: rows of READERS
"""

import gc
import importlib
import itertools
import math
import pkgutil
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import regex

import dragoman.model.inputs
import dragoman.model.text
import dragoman.services.endpoint
import dragoman.services.texts
from dragoman.services.texts.markdown import read_inline
from tests.services.texts.readers import READERS, read

ATOMS = re.split(
    "¦",
    " ¦\t¦\u00a0¦\n¦\r\n¦0¦7¦a¦é¦字¦.¦...¦,¦!¦?¦-¦- ¦_¦*¦**¦(¦)¦[¦]¦{¦}¦{{¦{%¦${¦$(¦#{¦%¦%(¦%0¦%s¦$¦$a¦\\¦\\\\¦/¦"
    "'¦\"¦`¦``¦```¦“¦‘¦«¦<¦>¦<a¦<a ¦<a>¦</a>¦<a/>¦<a b='¦<!--¦-->¦<!--x>¦<![CDATA[¦<![CDATA[x>¦<![if x]>¦]>¦]]>¦"
    "<?x¦<!x¦</¦<b><i>¦&¦&a¦&amp;¦&#¦&#x¦;¦:¦:a¦::¦@¦a@¦a@b.¦http:¦http://¦www.¦a.com¦a.¦.a¦1.¦1,¦1:¦+1¦/a¦~/¦"
    "C:\\¦#¦# ¦|¦||¦> ¦1. ¦* ¦[a](¦![¦[^1]¦][¦](¦~~¦==¦=¦+¦---\n¦😀¦\u200d¦\ufe0f¦\U0001f3fb¦\U0001f1e9¦dog ¦A. ¦"
    "Mr. ¦e.g. ¦x <a¦{a, plural, ¦other {¦#¦'{¦<w:p>¦\u001c",
)
SIZE = 4000  # characters; and twice as many
MOST = 2.5  # times as long for twice the characters
TRIES = 4
LEAST = 0.05  # CPU seconds below which a ratio says nothing


def texts(rng: random.Random) -> Iterator[str]:
    """Yields how long texts are made: a beginning, what is repeated, an end."""
    while True:
        pick = [rng.choice(ATOMS) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
        yield "\0".join((rng.choice(("", *ATOMS)), "".join(pick), rng.choice(("", *ATOMS))))


def make(form: str, size: int) -> str:
    first, again, last = form.split("\0")
    return first + again * (size // len(again)) + last


def seconds(name: str, text: str) -> float:
    """Returns the CPU seconds of a reader, without those of Python's collector, which no length of a text decides."""
    gc.disable()
    began = time.thread_time()
    try:
        read(name, text)
        return time.thread_time() - began
    finally:
        gc.enable()


def grows(name: str, form: str, size: int = SIZE) -> float:
    """Returns how many times as long a reader takes for twice the length; 0 if it is quick.

    The least of a few measurements: on a full machine another process takes caches and turns.
    """
    if seconds(name, make(form, 2 * size)) < LEAST:
        return 0.0
    ratio = math.inf
    for _ in range(TRIES):
        once, twice = (min(seconds(name, make(form, times * size)) for _ in range(3)) for times in (1, 2))
        ratio = min(ratio, twice / once if twice >= LEAST else 0.0)
        if ratio < MOST:
            break
    return ratio


def steps(name: str, text: str) -> int:
    """Returns how many lines a reader goes through."""
    count = itertools.count()

    def step(*_: object) -> Callable[..., object]:
        next(count)
        return step

    sys.settrace(step)
    try:
        read(name, text)
    finally:
        sys.settrace(None)
    return next(count)


FOUND = {  # what the fuzz found once: the form of a text, and readers that it made slow
    "x <a\0 \0b": ("masks", "prepare text", "prepare html", "prepare markdown"),
    "\0<!--x>\0": ("check html", "prepare html", "masks", "bare .html", "bare .md"),
    "\0<![CDATA[x]>\0": ("check html", "bare .html"),
    "\0{%\0": ("masks", "prepare text"),
    "%\x000\0!": ("masks", "prepare text"),
    "\0{a} %s 7 <b> dog. \0": ("prepare text", "translated"),
    "\0The dog (a cat) sees. \0": ("translated",),
    "\0dog\n\0": ("prepare text",),
}


@pytest.mark.parametrize(("form", "name"), [(form, name) for form, names in FOUND.items() for name in names])
def test_what_was_slow_once_is_read_at_thirty_times_the_length(form: str, name: str) -> None:
    """Where it grows with the square, this takes minutes."""
    assert seconds(name, make(form, 30_000)) < 10


def test_a_long_word_is_looked_for_loops_once() -> None:
    """It was read again from each letter behind a mark: 0.6 s for 16,000 characters, four times as much for 32,000."""
    assert grows("repeats", "\t\0<![CDATA[x>\0\\", 16_000) < MOST


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("translated", "www.\0http://{\0"),
        ("copied", "e.g. \0$a\0\r\n"),
        ("prepare text", "-->\0\t字\0{a, plural, "),
        ("prepare markdown", "{a, plural, \0<!--\0-->"),
        ("prepare text", "<![CDATA[x>\0</a>\0<a/>"),
        ("prepare text", "&amp;\0<w:p>*\0["),  # what is stripped from an end, round by round
    ],
)
def test_twice_the_text_takes_twice_as_many_steps(name: str, form: str) -> None:
    read(name, make(form, 100))  # which loads what is loaded once
    once, twice = (steps(name, make(form, size)) for size in (1000, 2000))
    assert twice < MOST * once


def test_a_comment_of_markdown_ends_at_its_first_end() -> None:
    """Where it did not, as before --->, the text was read to its end from every <!-- of it."""
    for text in ("<!--" * 5 + "-->", "<!-- b --->", "<!---->", "<!-->", "<!--->"):
        kinds = [(token.type, token.content) for token in read_inline(f"a {text}`c` <!--", {})]
        assert kinds[:2] == [("text", "a "), ("html_inline", text)] and kinds[-1] == ("text", " <!--")


NUMBER = "9" * 5000  # Python reads no number of so many digits
NUMBERS = (
    f"a {NUMBER} &#{NUMBER}; &#x{NUMBER}; {{0, plural, ={NUMBER} {{dog}}}}",
    f'<b title="&#{NUMBER};">a</b>',
    f"{NUMBER}. a\n{NUMBER}:00:01,000 --> 00:00:02,000\n",
    f'{{"a": {NUMBER}, "b": "dog"}}',
    f"a<t:s t:c='{NUMBER}'/>b",
    f'<xliff version="1.2"><file><body><trans-unit id="{NUMBER}"><source>a <g id="g-{NUMBER}">b</g></source>'
    "</trans-unit></body></file></xliff>",
)


@pytest.mark.parametrize("name", READERS)
def test_a_number_of_thousands_of_digits_is_read_or_refused(name: str) -> None:
    """A ValueError would be answered 500."""
    for text in NUMBERS:
        read(name, text)


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if ".migrations" not in one.name:
            yield importlib.import_module(one.name)


def patterns() -> dict[str, str]:
    """Returns the compiled patterns of the modules that read what users send, by place."""
    rooms = (dragoman.services.texts, dragoman.services.endpoint, dragoman.model.text, dragoman.model.inputs)
    return {
        f"{module.__name__}.{name}": str(value.pattern)
        for room in rooms
        for module in modules(room)
        for name, value in vars(module).items()
        if isinstance(value, re.Pattern | regex.Pattern) and isinstance(value.pattern, str)
    }


def nested_repeats(pattern: str) -> list[str]:
    """Returns the unbounded repeats of groups that end in an unbounded repeat and may be taken back: (a+)+, (?:\\w*)*.

    A conservative scan, without the libraries' own parsers. A group whose repeat is possessive, or that begins with a
    character that its own inner repeats exclude, cannot be cut in two ways.
    """
    found, opened = [], list[int]()
    place, in_set = 0, 0
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\":
            place += 2
            continue
        if sign == "[":
            in_set += 1
        elif sign == "]" and in_set and pattern[place - 1] != "[":
            in_set -= 1
        elif not in_set and sign == "(":
            opened.append(place)
        elif not in_set and sign == ")" and opened:
            start = opened.pop()
            after = pattern[place + 1 : place + 3]
            if after[:1] in ("*", "+") and after[1:] not in ("+",):
                inside = pattern[start + 1 : place]
                if re.search(r"(?<!\\)(?:[*+]|,\})(?![+])\)*$", inside) and not separated(inside):
                    found.append(pattern[start : place + 2])
        place += 1
    return found


def separated(inside: str) -> bool:
    """Returns True if a repeated group begins with a literal separator that its last repeat cannot match."""
    body = re.sub(r"^\?[:>]", "", inside)
    begins = re.match(r"\\?([^\w\s\\()\[\]|?*+.])(?![*+?])|\\([.|(\[{])(?![*+?])", body)
    classes = re.match(r"\[([^\]\\^]+)\](?![*+?])", body)
    signs = set((begins[1] or begins[2]) if begins else classes[1] if classes else "")
    last = re.search(r"(\[[^\]]*\]|\\.(?:\{\w+\})?|.)[*+]$", body)
    return bool(signs) and last is not None and not any(regex.match(last[1], one) for one in signs)


def test_no_pattern_repeats_what_ends_in_a_repeat() -> None:
    assert nested_repeats(r"(?:a+)+b") and nested_repeats(r"(\w*)*x") and nested_repeats(r"(?:a|b+)*c")
    assert not nested_repeats(r"(?:\.\w+)*") and not nested_repeats(r"(?:a+)++b") and not nested_repeats(r"[(a+)+]*")
    found = {place: nested for place, pattern in patterns().items() if (nested := nested_repeats(pattern))}
    assert not found


def test_every_file_of_the_room_is_reached_by_a_reader() -> None:
    """A new file of services/texts needs a row of READERS, or its text comes by one that is there."""
    reached: set[str] = set()
    sys.setprofile(lambda frame, *_: reached.add(frame.f_code.co_filename))
    try:
        for name in READERS:
            read(name, 'The <b>dog</b>, {a, plural, other {# dogs}}, "sees" 7 cats.\n\n# A *head* of 字\n')
    finally:
        sys.setprofile(None)
    reached = {str(Path(file).resolve()) for file in reached}
    room = {str(Path(module.__file__ or "").resolve()) for module in modules(dragoman.services.texts)}
    assert {Path(file).name for file in room - reached} == {"__init__.py", "options.py", "stand_ins.py"}


@pytest.mark.parametrize("name", [name for name in READERS if not name.startswith(("bare", "entries"))])
def test_no_row_of_the_readers_refuses_a_sentence(name: str) -> None:
    """Else nothing of its kind would be read by these tests."""
    READERS[name]("The dog sees 7 cats.")


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_no_reader_takes_more_than_twice_as_long_for_twice_the_text(name: str) -> None:
    rng = random.Random(name)
    for form in itertools.islice(texts(rng), 150):
        assert grows(name, form) < MOST, form


def main(limit: float, names: list[str]) -> None:
    """Prints readers and texts that grow, for so many seconds."""
    rng = random.Random()
    end = time.monotonic() + limit
    for form in texts(rng):
        for name in names or READERS:
            if (ratio := grows(name, form)) >= MOST:
                took = seconds(name, make(form, 2 * SIZE))
                print(f"{name:18} {ratio:5.1f} times, {took:6.2f} s for {2 * SIZE} characters: {form!r}", flush=True)
        if time.monotonic() > end:
            return


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 60.0, sys.argv[2:])
