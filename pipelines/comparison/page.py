"""The report: one self-contained HTML page, without scripts, fonts or pictures from elsewhere."""

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template

from dragoman.model.text.excerpt import for_markup
from dragoman.pipelines.comparison.pictures import Picture
from dragoman.pipelines.comparison.table import Table

TEMPLATE = Path(__file__).with_name("page.html")
SECTIONS = {  # sections of pictures: title and introduction
    "quality": ("Quality", "The scores of each network after its budget."),
    "length": ("Long sentences", "The question that attention was invented for."),
    "attention": ("Attention", "Networks with attention show which words they attend to."),
}
PHONE = 640  # pixels: narrower pictures fit a phone's screen, wider ones scroll there (40rem in page.html)
LONGEST_SAMPLE = 400  # characters: a network that has not learned to stop writes without end


@dataclass(frozen=True)
class Sample:
    """One held-out sentence with every network's translation, or a beginning with every network's continuation."""

    source: str
    reference: str
    translations: dict[str, str]
    names: tuple[str, str] = ("source", "reference")


@dataclass
class Report:
    """The content of the page."""

    title: str
    lead: str
    table: Table
    pictures: Sequence[Picture]
    samples: Sequence[Sample] = ()
    notes: Sequence[str] = field(default_factory=list)  # how the numbers were measured


def render(report: Report) -> str:
    parts = [("table", "The table", table_html(report.table))]
    for section, (title, lead) in SECTIONS.items():
        pictures_of_section = [picture for picture in report.pictures if picture.section == section]
        if pictures_of_section:
            figures = "\n".join(map(figure_html, pictures_of_section))
            parts.append((section, title, f'<p class="soft">{escape(lead)}</p>\n{figures}'))
    if report.samples:
        parts.append(("texts", "The same texts by every network", "\n".join(map(sample_html, report.samples))))
    body = "\n".join(
        f'<section id="{name}"><h2>{escape(title)}</h2>\n{content}</section>' for name, title, content in parts
    )
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in parts)
    page = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(report.title),
        lead=escape(report.lead),
        nav=links,
        body=body,
        foot=paragraphs(report.notes),
    )
    return for_markup(page)


def table_html(table: Table) -> str:
    """Returns the rows as HTML, the best of each column in bold."""
    best = {
        column: best_of([row[column][0] for row in table.rows], want)
        for want, chosen in ((max, table.highest), (min, table.lowest))
        for column in chosen
    }
    head = "".join(f'<th scope="col">{escape(large)}{small_html(small)}</th>' for large, small in table.head)
    lines = []
    for number, row in enumerate(table.rows):
        first, *rest = row
        columns = [f'<th scope="row">{name_html(first[0])}{small_html(first[1])}</th>']
        for column, (large, small) in enumerate(rest, 1):
            mark = ' class="best"' if number in best.get(column, ()) else ""
            columns.append(f"<td{mark}>{escape(large)}{small_html(small)}</td>")
        lines.append(f"<tr>{''.join(columns)}</tr>")
    return (
        f'<div class="scroll wide" tabindex="0" role="region" aria-label="Table of networks"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody></table></div>"
    )


def best_of(texts: Sequence[str], want: Callable[[Iterable[float]], float] = max) -> set[int]:
    """Returns the places of the largest (or smallest) number; empty if there is nothing to compare."""
    numbers = {place: float(text.replace(",", "")) for place, text in enumerate(texts) if text != "–"}
    if len(numbers) < 2:
        return set()
    best = want(numbers.values())
    return {place for place, number in numbers.items() if number == best}


def figure_html(picture: Picture) -> str:
    """Returns the embedded picture with its caption and its alternative text."""
    data = base64.b64encode(picture.png).decode()
    alt = escape(f"{picture.title}. {picture.alt}")
    wide = ' wide" tabindex="0" role="region" aria-label="Picture' if width_of(picture.png) > PHONE else ""
    image = f'<div class="scroll{wide}"><img loading="lazy" alt="{alt}" src="data:image/png;base64,{data}"></div>'
    caption = f"<figcaption><b>{escape(picture.title)}.</b> {escape(picture.text)}</figcaption>"
    return f'<figure id="{escape(picture.name)}">{image}\n{caption}</figure>'


def width_of(png: bytes) -> int:
    """Returns the width in pixels, from the PNG's first chunk (IHDR)."""
    return int.from_bytes(png[16:20], "big")


def sample_html(sample: Sample) -> str:
    """Returns one sentence as an HTML table."""
    lines = [*zip(sample.names, (sample.source, sample.reference), strict=True), *sample.translations.items()]
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(clip(text, LONGEST_SAMPLE))}</td></tr>'
        for name, text in lines
    )
    return f'<div class="scroll"><table class="texts"><tbody>{rows}</tbody></table></div>'


def clip(text: str, longest: int) -> str:
    """Returns the beginning of an overlong text."""
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def name_html(name: str) -> str:
    """Returns a network's name as HTML, which may break after a `_`."""
    return escape(name).replace("_", "_<wbr>")


def paragraphs(texts: Iterable[str]) -> str:
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def small_html(text: str) -> str:
    return f"<small>{escape(text)}</small>" if text else ""
