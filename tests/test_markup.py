"""Whatever stands in a name, a setting or a sample: pages and pictures are well-formed, and nothing in them runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from markdown_it import MarkdownIt

from dragoman.model.alignment.attention_map import AttentionMap
from dragoman.model.text.excerpt import for_markup
from dragoman.pipelines.tracking.cards import CARDS
from dragoman.pipelines.tracking.descriptions import describe_run
from dragoman.pipelines.tracking.version import describe, facts
from dragoman.services.commands.documents import draw
from dragoman.services.jobs.pages.site import templates
from tests.markup import HOSTILE, TEXTS, check_nothing_runs, check_picture

often = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(TEXTS)
@often
def test_text_that_markup_can_hold_stays(text: str) -> None:
    found = for_markup(text)
    assert len(found) == len(text)
    assert all(one in (other, "\ufffd") for one, other in zip(found, text, strict=True))
    assert for_markup("a\tb\n\u200f\u200d日本😀é") == "a\tb\n\u200f\u200d日本😀é"


@pytest.mark.parametrize("kind", CARDS)
@given(text=TEXTS)
@often
def test_a_models_description_shows_text_as_text(kind: str, text: str) -> None:
    def elements(of: str) -> list[str]:
        config = {
            **{"kind": kind, "pair": of, "architecture": of, "manifest_hash": of, "config_hash": of},
            **{"run": {"name": of}, "model": {"name": of}, "vocabulary": of},
            "scores": {"test": {"bleu": 1.0, "nats": 1.0, "signatures": {"bleu": of}}} if kind != "vectors" else {},
        }
        tags: dict[str, Any] = {**facts(config), "dragoman.job": of, "dragoman.job_page": of, "bundle_hash": of}
        run = describe_run("train", config, {"corpus": of, "pair": of, "manifest_hash": of})
        markdown = MarkdownIt("commonmark", {"html": True})
        written = "".join(markdown.render(one) for one in (run, describe("1", "r", tags, "1")))
        return check_nothing_runs(f"<!doctype html><title>x</title>{written}")

    assert set(elements(text)) <= {*elements("plain"), "em"}  # an underscore may be read as emphasis


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_picture_of_attention_is_strict_xml(tmp_path: Path) -> None:
    maps = [
        AttentionMap(
            HOSTILE[first::2], HOSTILE[first::2], np.eye(len(HOSTILE[first::2]), dtype=np.float32), text, "output"
        )
        for first, text in enumerate(("<b>&\x00", "\ud83d--\x01"))
    ]
    draw(maps, tmp_path / "map.svg")
    check_picture(tmp_path / "map.svg")


def test_templates_escape_and_keep_to_what_html_can_hold() -> None:
    for text in HOSTILE:
        check_nothing_runs(for_markup(templates().get_template("stranger.html").render(title=text, problem=text)))
