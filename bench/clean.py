"""Eight kinds of noise in a twentieth of Tatoeba en-de: the share of each that cleaning finds, and its loss.

Two halves of the corpus, by the hash of the English sentence: thresholds are chosen on the first (`--half=dev`), the
figures are those of the second. The kinds were written before any result was seen.
"""

import gzip
import hashlib
import random
import string
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.result import Result
from dragoman.model.shards.manifest import ShardsConfig
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.pipelines.cluster.map import here
from dragoman.pipelines.corpus.clean.block import load_keys
from dragoman.pipelines.corpus.making import Sharding
from dragoman.pipelines.corpus.parallel import plan_pairs
from dragoman.pipelines.corpus.plan.codes import RULES, load_codes
from dragoman.pipelines.corpus.read.sources import sources_of
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig, CutConfig, SplitFiles

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


def run(quick: bool, rest: list[str]) -> Result:
    """`FOLDER [dev]`: that of Tatoeba, with deu.txt.gz and fra.txt.gz; dev: the half for choosing. Quick: a third."""
    folder, part = Path(rest[0]), 0 if "dev" in rest[1:] else 1
    french: dict[str, str] = {}
    for source, target in _read(folder / "fra.txt.gz"):
        french.setdefault(source, target)
    pairs = [
        pair
        for pair in _read(folder / "deu.txt.gz")
        if hashlib.blake2b(pair[0].encode(), digest_size=2).digest()[0] % 2 == part
    ]
    noisy, planted = plant(pairs[:: 3 if quick else 1], french, part + 1)
    rules = _clean(noisy)
    gone = {line for line, rule in rules.items() if rule not in ("kept", "duplicate")}
    touched = planted.keys() | {line for _, line in planted.values()}
    recall = {}
    for kind in KINDS:
        lines = [(line, other) for line, (name, other) in planted.items() if name == kind.__name__]
        found = [(line in rules and rules[line] != "kept") or other in gone for line, other in lines]
        recall[kind.__name__] = sum(found) / len(found)
        print(f"{kind.__name__:<16} {sum(found):>4} of {len(found)} found, recall {recall[kind.__name__]:.3f}")
    lost = Counter(rules[line] for line in gone - touched)
    clean = len(noisy) - len(touched)
    for rule, number in lost.most_common():
        print(f"lost by {rule:<16} {number:>5} of {clean:,} clean pairs, {100 * number / clean:.3f} %")
    print(f"lost in all: {100 * lost.total() / clean:.3f} %")
    return Result(
        "clean", min(recall.values()), 0.95, f"least recall of a kind; {part=}, lost {lost.total()}", "baseline"
    )


def _clean(pairs: Sequence[Pair]) -> dict[int, str]:
    """Returns line -> the rule that drops it, or kept."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "pairs.tsv"
        file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8", newline="\n")
        corpus = CorpusConfig(
            name="noisy",
            format="tsv",
            train=SplitFiles(file=str(file)),
            cut=CutConfig(valid=0.0, test=0.0),
            clean=CleanConfig(rules="strict"),
        )
        sharding = Sharding(
            folder,
            corpus,
            TokenizerConfig(),
            ShardsConfig(),
            here(),
            lambda: "",
            seed=1,
            languages=("en", "de"),
            sources=sources_of(corpus, "en-de"),
            values={},
        )
        sharding.scratch.mkdir()
        with sharding.staged() as (blocks, nodes):
            planned = plan_pairs(sharding, blocks, nodes)
        found = dict.fromkeys(range(len(pairs)), "early")
        for block in planned.blocks:
            lines = load_keys(planned.clean, block.number)[0]
            for line, number in zip(lines.tolist(), load_codes(planned.plan.folder, block.number), strict=True):
                found[block.first_line + line] = RULES[int(number) // 4]
        return found


def _read(path: Path) -> list[Pair]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [(pair[0], pair[1]) for line in file if len(pair := line.rstrip("\r\n").split("\t")) > 1]
