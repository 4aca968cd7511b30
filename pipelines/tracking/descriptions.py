"""Describes a run and an experiment on MLflow's pages, with links to the job, the shards and the version.

Links within MLflow are relative to its page, so they hold at any address.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.conf import again
from dragoman.model.text.excerpt import excerpt, for_markup
from dragoman.pipelines.tracking.author import JOB

NOTE = "mlflow.note.content"
JOB_TAG, PAGE_TAG = "dragoman.job", "dragoman.job_page"
EXPERIMENT = (
    "Trainings and comparisons of networks (tag `kind`: `train`, `compare`). A run's description leads to its job, its "
    "shards and its model version."
)
SHARDINGS = "Corpora made into shards. A run tells what was kept and dropped of a corpus, and which trainings read it."
SERVICE = "DRAGOMAN_SERVICE"  # variable that the job service gives its jobs
NAME = re.compile(r"[\w.+-]{1,80}")
ADDRESS = re.compile(r"https?://[\w.:/\[\]-]+")
_MARKUP = str.maketrans("`<>[]*\\\n\r", "'‹›()·/  ")
SCORES = 3  # in a description
EXAMPLE = 100  # characters of a text in it; a model that repeats itself fills what MLflow's page shows of it
SCORE = "**Score**"
DOING = {"train": "Training", "shard": "Sharding", "compare": "Comparison of networks"}


def job_tags() -> dict[str, str]:
    """Returns the tags of this process's job and its page; empty outside the job service."""
    job, service = os.environ.get(JOB, ""), os.environ.get(SERVICE, "")
    if not NAME.fullmatch(job):
        return {}
    page = {PAGE_TAG: f"{service.rstrip('/')}/jobs/{job}"} if ADDRESS.fullmatch(service) else {}
    return {JOB_TAG: job, **page}


def without_markup(text: str) -> str:
    """Returns a text for a description's words or code, with Markdown's markup characters replaced by similar ones."""
    return for_markup(text).translate(_MARKUP)


def job_line(tags: Mapping[str, str]) -> list[str]:
    """Returns the line about the job, with a link if its page's address is known."""
    job, page = tags.get(JOB_TAG), tags.get(PAGE_TAG, "")
    if not NAME.fullmatch(job or ""):
        return []
    return [f"**Job** [{job}]({page})" if ADDRESS.fullmatch(page) else f"**Job** {job}"]


def describe_run(kind: str, config: Mapping[str, Any], data: Mapping[str, str]) -> str:
    """Returns a run's description in Markdown; `data` are the tags of its inputs: manifest_hash, corpus, pair."""
    model = (config.get("model") or {}).get("name") if kind == "train" else None
    of = f" of `{without_markup(model)}`" if model else ""
    corpus, pair, shards = (without_markup(data[key]) for key in ("corpus", "pair", "manifest_hash"))
    first = f"{DOING.get(kind, kind)}{of}, {corpus} {pair}; shards `{shards[:12]}`"
    command = f"**Command** `{without_markup(again.command(kind))}`"
    return "\n\n".join([first, command, *job_line(job_tags())])


def describe_scores(step: int, scores: Mapping[str, float], examples: Sequence[tuple[str, str]]) -> str:
    """Returns the first scores of a run and a few texts with what the model makes of them, in Markdown."""
    at = f" at step {step:,}" if step else ""
    figures = ", ".join(f"{name} {value:.4g}" for name, value in list(scores.items())[:SCORES])
    lines = [" → ".join(f"{without_markup(excerpt(text, EXAMPLE))}" for text in example) for example in examples]
    return "\n\n".join([f"{SCORE}{at}: {figures}", *(["\n".join(f"- {line}" for line in lines)] if lines else [])])


def with_lines(description: str, more: str) -> str:
    """Returns the description with more paragraphs; existing ones are kept and not repeated.

    Scores come after the first paragraph, because MLflow's page shows the beginning.
    """
    paragraphs = description.split("\n\n") if description else []
    new = [line for line in more.split("\n\n") if line not in paragraphs]
    place = 1 if more.startswith(SCORE) else len(paragraphs)
    return "\n\n".join([*paragraphs[:place], *new, *paragraphs[place:]])
