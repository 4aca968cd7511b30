"""`dragoman classify TEXT` and `dragoman tag TEXT`: what a model with a head says of texts, without a server.

`classify` gives the likeliest classes or the number of each text, `tag` the tag of each word; a line of output each.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from dragoman.conf import compose
from dragoman.model.bundles.labelled import load_label_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.labeller import Labeller
from dragoman.model.ranges import check_ranges
from dragoman.model.text.labelled_words import Label, TaggedWord, Words
from dragoman.services.commands.lines import batches, open_input, read_lines
from dragoman.services.commands.output import open_output
from dragoman.services.models.loaded_labeller import NUMBER, LoadedLabeller
from dragoman.services.models.origin import Origin
from dragoman.services.models.registry import UNREGISTERED
from dragoman.services.models.source import find_model
from dragoman.services.settings import LabelConfig

VERBS = {True: "tag", False: "classify"}


def label(verb: str, config: LabelConfig, text: str | None = None) -> int:
    """Labels all lines in order, or the `text` of the command line.

    Raises UserError: an unreadable input, a line that is not UTF-8, or a model that labels something else.
    """
    check_ranges("label", config)
    with open_input(config.input, "label", text=text) as (file, name):
        directory, _ = find_model(config, "label")
        bundle = load_label_bundle(directory)
        served = LoadedLabeller(Labeller(bundle, config.device), Origin.of(bundle, UNREGISTERED))
        if VERBS[served.tags] != verb:
            raise UserError(f"{directory} gives {bundle.task}; write dragoman {VERBS[served.tags]}")
        with open_output(config.output, "label") as out:
            for chunk in batches(read_lines(file, name, config.on_error, "label"), config.lines):
                texts = [Words.split(line or "") for line in chunk]
                for words, labelled in zip(texts, served.label(texts), strict=True):
                    out.write(written(words.text, labelled, config) + "\n")
                out.flush()
    return compose.OK


def written(text: str, labelled: Sequence[Label] | Sequence[TaggedWord], config: LabelConfig) -> str:
    """Returns the line of a text: its likeliest classes with probabilities, its number, or its words with tags."""
    rows = [asdict(row) for row in labelled]
    if config.format == "json":
        tagged = any("tag" in row for row in rows)
        record = {"text": text, "words" if tagged else "labels": rows[: None if tagged else config.best]}
        return json.dumps(record, ensure_ascii=False)
    if rows and rows[0].get("label") == NUMBER:
        return f"{rows[0]['score']:g}"
    return " ".join(f"{row['word']}/{row['tag']}" for row in rows if "tag" in row) or "\t".join(
        f"{row['label']} {row['score']:.4f}" for row in rows[: config.best]
    )


classify, tag = partial(label, "classify"), partial(label, "tag")
