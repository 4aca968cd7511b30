"""Eight kinds of noise planted in a twentieth of Tatoeba en-de: the share of each that cleaning finds, and what it loses.

Two halves of the corpus, by the hash of the English sentence: thresholds are chosen on the first (`--half=dev`), figures
are those of the second. The kinds were written before any result was seen.
"""

import random
import string
from collections.abc import Callable, Sequence

Pair = tuple[str, str]


def misaligned(pair: Pair, other: Pair, foreign: str, draw: random.Random) -> Pair | None:
    """The target is that of another pair."""
    return pair[0], other[1]


def wrong_language(pair: Pair, other: Pair, foreign: str, draw: random.Random) -> Pair | None:
    """The target is French: of the same sentence where Tatoeba has it, else of another one."""
    return pair[0], foreign


def copied(pair: Pair, other: Pair, foreign: str, draw: random.Random) -> Pair | None:
    """The target is the source; in half of the pairs without its last mark."""
    return pair[0], pair[0] if draw.random() < 0.5 else pair[0].rstrip(".!?")


def truncated(pair: Pair, other: Pair, foreign: str, draw: random.Random) -> Pair | None:
    """The target stops after half of its words, four words or more."""
    words = pair[1].split()
    return (pair[0], " ".join(words[: len(words) // 2])) if len(words) >= 4 else None


def swapped(pair: Pair, other: Pair, foreign: str, draw: random.Random) -> Pair | None:
    """Source and target have changed places."""
    return pair[1], pair[0]


def number_changed(pair: Pair, other: Pair, foreign: str, draw: random.Random) -> Pair | None:
    """A digit of the target is another one, where both sides have digits."""
    places = [place for place, letter in enumerate(pair[1]) if letter.isdigit()]
    if not places or not any(letter.isdigit() for letter in pair[0]):
        return None
    place = draw.choice(places)
    digit = draw.choice([digit for digit in string.digits if digit != pair[1][place]])
    return pair[0], pair[1][:place] + digit + pair[1][place + 1 :]


def repeated(pair: Pair, other: Pair, foreign: str, draw: random.Random) -> Pair | None:
    """A word of the target is there four to eight times; or the target is letters and signs drawn at random."""
    words = pair[1].split()
    if draw.random() < 0.5:
        place = draw.randrange(len(words))
        return pair[0], " ".join([*words[:place], *[words[place]] * draw.randint(4, 8), *words[place + 1 :]])
    signs = string.ascii_letters + string.digits + "#$%&*+/<=>@[]^_{|}~   "
    return pair[0], "".join(draw.choice(signs) for _ in pair[1])


def near_duplicate(pair: Pair, other: Pair, foreign: str, draw: random.Random) -> Pair | None:
    """Another pair again: in lower case, without the last marks, or with a letter of one side twice."""
    kind, side = draw.randrange(3), draw.randrange(2)
    if kind == 0:
        return other[0].lower(), other[1].lower()
    if kind == 1:
        return other[0].rstrip(".!?"), other[1].rstrip(".!?")
    place = draw.choice([place for place, letter in enumerate(other[side]) if letter.isalpha()])
    changed = other[side][: place + 1] + other[side][place:]
    return (changed, other[1]) if side == 0 else (other[0], changed)


KINDS: tuple[Callable[[Pair, Pair, str, random.Random], Pair | None], ...] = (
    misaligned,
    wrong_language,
    copied,
    truncated,
    swapped,
    number_changed,
    repeated,
    near_duplicate,
)
SHARE = 0.05


def plant(pairs: Sequence[Pair], french: dict[str, str], seed: int) -> tuple[list[Pair], dict[int, tuple[str, int]]]:
    """Returns the pairs with noise, and line -> (kind, the line whose pair is there again, or its own)."""
    draw = random.Random(seed)
    each = int(SHARE * len(pairs) / len(KINDS))
    foreign = list(french.values())
    noisy, planted = list(pairs), dict[int, tuple[str, int]]()
    order = draw.sample(range(len(pairs)), len(pairs))
    for kind in sorted(KINDS, key=lambda kind: kind is not number_changed):  # few pairs have numbers
        found = 0
        for line in order:
            if found == each:
                break
            if line in planted:
                continue
            again = draw.randrange(len(pairs))
            if kind is near_duplicate and (again in planted or again == line):
                continue
            text = french.get(pairs[line][0]) or draw.choice(foreign)
            changed = kind(pairs[line], pairs[again], text, draw)
            if changed is not None and changed != pairs[line]:
                noisy[line], found = changed, found + 1
                planted[line] = (kind.__name__, again if kind is near_duplicate else line)
    return noisy, planted
