"""Two or more systems line by line: what differs is marked, and lines are filtered and ordered by style rules alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape

import regex

from dragoman.pipelines.evaluation.checks import run_checks
from dragoman.pipelines.evaluation.metrics import scorer
from dragoman.pipelines.evaluation.sets.read import HeldOutSet

MOST = 500  # lines on a page: half of them with the largest losses, half with the largest gains
LONGEST = 600  # characters of a text: a network that has not learned to stop writes without end
# Letters of scripts without blanks stand for themselves; words, signs and blanks of others.
_TOKEN = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*|[\p{L}\p{M}\p{N}_]+|\s+|."
)
Part = tuple[bool, str]  # whether it is only here, a piece of the text
FILTERS = ("set", "domain", "check")
ORDERS = {"worst": "losses first", "best": "gains first", "file": "as in the files"}


Texts = Mapping[str, Sequence[str]]  # label -> translations; the first is the baseline, the last the candidate


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


def lines_of(sets: Sequence[tuple[HeldOutSet, Texts]], languages: Sequence[str], most: int = MOST) -> Lines:
    """Returns the lines on which the systems differ, at most `most`: the largest losses and the largest gains."""
    metric, differing = scorer("chrf"), []
    for compared, by_label in sets:
        faults: dict[int, dict[str, list[str]]] = {}
        for label, texts in by_label.items():
            for check, result in run_checks(compared.sources, compared.references, texts, languages).items():
                for row in result.faults:
                    faults.setdefault(row, {}).setdefault(check, []).append(label)
        for row, source in enumerate(compared.sources):
            texts_here = {label: texts[row] for label, texts in by_label.items()}
            if len(set(texts_here.values())) > 1:
                references = tuple(compared.references[row])
                scores = {label: metric.sentence_score(text, references).score for label, text in texts_here.items()}
                domain = compared.domains[row] if compared.domains else ""
                here = (compared.name, row + 1, domain, source, references, texts_here, scores, faults.get(row, {}))
                differing.append(Line(*here))
    ordered = sorted(differing, key=lambda line: line.difference)
    gains = most // 2
    chosen = ordered if len(ordered) <= most else ordered[: most - gains] + ordered[len(ordered) - gains :]
    return Lines(
        chosen, len(differing), sum(len(compared.sources) for compared, _ in sets), (languages[0], languages[-1])
    )


def mark(left: str, other: str) -> tuple[list[Part], list[Part]]:
    """Returns the parts of both texts, and whether the other text lacks them, word by word."""
    ours, theirs = _TOKEN.findall(left), _TOKEN.findall(other)
    parts: tuple[list[Part], list[Part]] = ([], [])
    for kind, *places in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        for own, tokens, (begin, end) in zip(parts, (ours, theirs), (places[:2], places[2:]), strict=True):
            if begin < end:
                own.append((kind != "equal", "".join(tokens[begin:end])))
    return parts


def lines_html(lines: Lines) -> str:
    """Returns the section's content: filters, and an article per line."""
    labels = list(lines.shown[0].scores)
    about = f"{lines.differing:,} of {lines.of:,} lines differ"
    if len(lines.shown) < lines.differing:
        about += f"; the {len(lines.shown):,} with the largest losses and gains are below"
    lead = (
        f"{about}. Above each one stands the sentence's chrF of {labels[-1]} minus that of {labels[0]}. Marked is what "
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


def _choices(lines: Sequence[Line]) -> dict[str, dict[str, int]]:
    """Returns filter -> its values with their numbers of lines; their order numbers them."""
    every = [_values(line) for line in lines]
    counts = {name: Counter(value for values in every for value in values[name]) for name in FILTERS}
    return {name: dict(sorted(each.items())) for name, each in counts.items()}


def _filters(lines: Sequence[Line]) -> str:
    boxes = []
    for name, values in _choices(lines).items():
        if not values or (len(values) == 1 and name != "check"):
            continue
        options = "".join(
            f'<option value="{place}">{escape(value)} ({count:,})</option>'
            for place, (value, count) in enumerate(values.items())
        )
        boxes.append(f'<label>{name} <select id="{name}"><option value="">all</option>{options}</select></label>')
    options = "".join(f'<option value="{name}">{words}</option>' for name, words in ORDERS.items())
    boxes.append(f'<label>order <select id="order">{options}</select></label>')
    return f'<form class="filters" autocomplete="off">{"".join(boxes)}</form>'


def _attributes(lines: Sequence[Line]) -> list[str]:
    """Returns of each line the classes that filters ask for, and its places under every order."""
    numbers = {name: {value: place for place, value in enumerate(each)} for name, each in _choices(lines).items()}
    order = sorted(range(len(lines)), key=lambda row: (lines[row].set, lines[row].number))
    in_files = {row: place for place, row in enumerate(order)}
    attributes = []
    for row, line in enumerate(lines):
        classes = [f"{name}-{numbers[name][value]}" for name, values in _values(line).items() for value in values]
        style = f"--worst: {row}; --best: {len(lines) - row}; --file: {in_files[row]}"
        attributes.append(f'class="{" ".join(["line", *classes])}" style="{style}"')
    return attributes


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
        text = "".join(f"<{tag}>{escape(piece)}</{tag}>" if only else escape(piece) for only, piece in parts)
        rows.append((label, f"<small>chrF {line.scores[label]:.1f}</small>", target, text or "<i>empty</i>"))
    table = "".join(
        f'<tr><th scope="row">{escape(name).replace("_", "_<wbr>")}{score}</th><td {language}>{text}</td></tr>'
        for name, score, language, text in rows
    )
    faults = "; ".join(f"{check}: {', '.join(labels)}" for check, labels in sorted(line.faults.items()))
    facts = [
        f"{line.set}, line {line.number:,}",
        *([line.domain] if line.domain else []),
        *([faults] if faults else []),
    ]
    head = f"<b>{line.difference:+z.1f}</b> {escape(' · '.join(facts))}"
    return f'<article {attributes}><h3>{head}</h3>\n<table class="texts"><tbody>{table}</tbody></table></article>'


def clip(text: str, longest: int = LONGEST) -> str:
    """Returns the beginning of an overlong text."""
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"
