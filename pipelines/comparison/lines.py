"""Two or more systems line by line: what differs is marked, and lines are filtered and ordered by style rules alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape

import regex

from dragoman.pipelines.evaluation.checks import run_checks

MOST = 500  # lines on a page: half of them with the largest losses, half with the largest gains
LONGEST = 600  # characters of a text: a network that has not learned to stop writes without end
# Letters of scripts without blanks stand for themselves; words, signs and blanks of others.
_TOKEN = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*|[\p{L}\p{M}\p{N}_]+|\s+|."
)
Part = tuple[bool, str]  # whether it is only here, a piece of the text
FILTERS = ("set", "domain", "check")
ORDERS = {"worst": "losses first", "best": "gains first", "file": "as in the files"}


@dataclass(frozen=True)
class Compared:
    """One set with the translations of every system."""

    name: str
    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    domains: Sequence[str]  # empty: none
    texts: Mapping[str, Sequence[str]]  # label -> translations; the first one is the baseline, the last the candidate


@dataclass(frozen=True)
class Line:
    """A line that the systems translate otherwise."""

    set: str
    number: int  # from 1
    domain: str
    source: str
    references: tuple[str, ...]
    texts: dict[str, str]
    scores: dict[str, float]  # sentence chrF by label
    faults: dict[str, list[str]]  # check -> labels of the systems that fail it

    @property
    def difference(self) -> float:
        """Returns how much better the last system is than the first, in chrF."""
        first, *_, last = self.scores.values()
        return last - first


@dataclass(frozen=True)
class Lines:
    """The lines of a page."""

    shown: list[Line]  # largest losses of the last system first
    differing: int  # lines on which any two systems differ
    of: int
    languages: tuple[str, str]


def lines_of(sets: Sequence[Compared], languages: Sequence[str], most: int = MOST) -> Lines:
    """Returns the lines on which the systems differ, at most `most`: the largest losses and the largest gains."""
    from sacrebleu.metrics.chrf import CHRF

    metric, found = CHRF(), []
    for one in sets:
        faults: dict[int, dict[str, list[str]]] = {}
        for label, texts in one.texts.items():
            for check, result in run_checks(one.sources, one.references, texts, languages).items():
                for row in result.faults:
                    faults.setdefault(row, {}).setdefault(check, []).append(label)
        for row, source in enumerate(one.sources):
            texts_here = {label: texts[row] for label, texts in one.texts.items()}
            if len(set(texts_here.values())) > 1:
                references = tuple(one.references[row])
                scores = {label: metric.sentence_score(text, references).score for label, text in texts_here.items()}
                domain = one.domains[row] if one.domains else ""
                here = (one.name, row + 1, domain, source, references, texts_here, scores, faults.get(row, {}))
                found.append(Line(*here))
    ordered = sorted(found, key=lambda line: line.difference)
    gains = most // 2
    shown = ordered if len(ordered) <= most else ordered[: most - gains] + ordered[len(ordered) - gains :]
    return Lines(shown, len(found), sum(len(one.sources) for one in sets), (languages[0], languages[-1]))


def mark(one: str, other: str) -> tuple[list[Part], list[Part]]:
    """Returns the parts of both texts, and whether the other text lacks them, word by word."""
    ours, theirs = _TOKEN.findall(one), _TOKEN.findall(other)
    parts: tuple[list[Part], list[Part]] = ([], [])
    for kind, *places in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        for own, tokens, (begin, end) in zip(parts, (ours, theirs), (places[:2], places[2:]), strict=True):
            if begin < end:
                own.append((kind != "equal", "".join(tokens[begin:end])))
    return parts


def lines_html(lines: Lines) -> str:
    """Returns the section's content: filters, and an article per line."""
    labels = list(lines.shown[0].scores)
    told = f"{lines.differing:,} of {lines.of:,} lines differ"
    if len(lines.shown) < lines.differing:
        told += f"; the {len(lines.shown):,} with the largest losses and gains are below"
    lead = (
        f"{told}. Above each one stands the sentence's chrF of {labels[-1]} minus that of {labels[0]}. Marked is what "
        f"{'only one of the two has' if len(labels) == 2 else f'a system has and {labels[0]} has not'}."
    )
    marked = zip(lines.shown, _attributes(lines.shown), strict=True)
    articles = "\n".join(_article(line, lines.languages, attributes) for line, attributes in marked)
    return f'<p class="soft">{escape(lead)}</p>\n{_filters(lines.shown)}\n<div class="lines">\n{articles}\n</div>'


def lines_style(lines: Lines) -> str:
    """Returns the rules by which the choices in the filters hide and order lines."""
    rules = []
    for name, values in _choices(lines.shown).items():
        for place in range(len(values)):
            rules.append(
                f"body:has(#{name} option[value='{place}']:checked) .line:not(.{name}-{place}) {{ display: none; }}"
            )
    for order in ORDERS:
        rules.append(f"body:has(#order option[value='{order}']:checked) .line {{ order: var(--{order}); }}")
    return "\n".join(rules)


def _values(line: Line) -> dict[str, list[str]]:
    """Returns filter -> the line's values."""
    return {"set": [line.set], "domain": [line.domain] if line.domain else [], "check": list(line.faults)}


def _choices(shown: Sequence[Line]) -> dict[str, dict[str, int]]:
    """Returns filter -> its values with their numbers of lines; their order numbers them."""
    every = [_values(line) for line in shown]
    counts = {name: Counter(value for values in every for value in values[name]) for name in FILTERS}
    return {name: dict(sorted(each.items())) for name, each in counts.items()}


def _filters(shown: Sequence[Line]) -> str:
    boxes = []
    for name, values in _choices(shown).items():
        if not values or (len(values) == 1 and name != "check"):
            continue
        options = "".join(
            f'<option value="{place}">{escape(value)} ({count:,})</option>'
            for place, (value, count) in enumerate(values.items())
        )
        boxes.append(f'<label>{name} <select id="{name}"><option value="">all</option>{options}</select></label>')
    options = "".join(f'<option value="{name}">{told}</option>' for name, told in ORDERS.items())
    boxes.append(f'<label>order <select id="order">{options}</select></label>')
    return f'<form class="filters" autocomplete="off">{"".join(boxes)}</form>'


def _attributes(shown: Sequence[Line]) -> list[str]:
    """Returns of each line the classes that filters ask for, and its places under every order."""
    numbers = {name: {value: place for place, value in enumerate(each)} for name, each in _choices(shown).items()}
    order = sorted(range(len(shown)), key=lambda row: (shown[row].set, shown[row].number))
    in_files = {row: place for place, row in enumerate(order)}
    found = []
    for row, line in enumerate(shown):
        classes = [f"{name}-{numbers[name][value]}" for name, values in _values(line).items() for value in values]
        style = f"--worst: {row}; --best: {len(shown) - row}; --file: {in_files[row]}"
        found.append(f'class="{" ".join(["line", *classes])}" style="{style}"')
    return found


def _article(line: Line, languages: tuple[str, str], attributes: str) -> str:
    source, target = (f'lang="{escape(code)}" dir="auto"' for code in languages)
    rows = [("source", "", source, escape(clip(line.source)))]
    rows += [("reference", "", target, escape(clip(text))) for text in line.references]
    baseline, *others = line.texts
    marked = {baseline: [(False, clip(line.texts[baseline]))]}
    for label in others:
        first, marked[label] = mark(clip(line.texts[baseline]), clip(line.texts[label]))
        if len(others) == 1:
            marked[baseline] = first
    for label, parts in marked.items():
        tag = "del" if label == baseline else "ins"
        text = "".join(f"<{tag}>{escape(one)}</{tag}>" if only else escape(one) for only, one in parts)
        rows.append((label, f"<small>chrF {line.scores[label]:.1f}</small>", target, text or "<i>empty</i>"))
    table = "".join(
        f'<tr><th scope="row">{escape(name).replace("_", "_<wbr>")}{score}</th><td {language}>{text}</td></tr>'
        for name, score, language, text in rows
    )
    faults = "; ".join(f"{check}: {', '.join(labels)}" for check, labels in sorted(line.faults.items()))
    told = [f"{line.set}, line {line.number:,}", *([line.domain] if line.domain else []), *([faults] if faults else [])]
    head = f"<b>{line.difference:+z.1f}</b> {escape(' · '.join(told))}"
    return f'<article {attributes}><h3>{head}</h3>\n<table class="texts"><tbody>{table}</tbody></table></article>'


def clip(text: str) -> str:
    """Returns the beginning of an overlong text."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()}…"
