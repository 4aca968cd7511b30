"""`dragoman evaluate`: scores a bundle on a held-out set, and compares it with other bundles on request.

dragoman evaluate evaluate.split=valid                             the run `name`
dragoman evaluate bundle=RUN evaluate.against=OTHER_RUN   language models: the likelihood of the same text
dragoman evaluate bundle=RUN evaluate.against=[glove,tfidf,one_hot] vectors=english ...
"""

import contextlib
import logging
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dragoman.conf import compose, showing
from dragoman.model.bundles.directory import Bundle, bundle_hash, bundle_kind
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import KINDS, open_bundle
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.base import Evaluation
from dragoman.pipelines.tasks.base import Task, task_of
from dragoman.pipelines.tasks.held_out_set import describe_set

logger = logging.getLogger(__name__)


def task(config: Config) -> int:
    """Evaluates, prints, stores the record beside the bundle, then compares with the others.

    Raises UserError: an unknown name or split, or bundles of different kinds.
    """
    with contextlib.redirect_stdout(sys.stderr) if showing.wants_json() else contextlib.nullcontext():
        evaluation, comparison = evaluate(config)
        if comparison:
            print("", comparison, sep="\n")
    if showing.wants_json():
        showing.show(evaluation.rows(), str)
    return compose.OK


def evaluate(config: Config, say: Callable[[str], object] = print) -> tuple[Evaluation, str]:
    """Evaluates and stores the record; returns it, and the comparison with the others (empty if there are none).

    `say` gets the report as soon as it is known.

    Raises UserError: as `task`.
    """
    settings = config.evaluate
    directory = config.bundle_dir(config.bundle, "bundle")
    bundle, folder, kind = open_bundle(directory), record_folder(config, directory), bundle_kind(directory)
    row, load = task_of(kind), KINDS[kind].load
    against = [settings.against] if isinstance(settings.against, str) else settings.against or []
    rivals = {rival: load(config.bundle_dir(rival, "evaluate.against")) for rival in against}
    run = run_name(bundle, folder)
    about = describe_set(config, folder, run, [directory]) if row.training.held_out else ""
    evaluation = row.evaluate(config, bundle)
    say(evaluation.report())
    if about:
        say(f"\n{about}")
    files = evaluation.write(folder)
    logger.info(f"kept in {' and '.join(map(str, files))}")
    comparison = compare_rivals(row, config, evaluation, rivals) if rivals else ""
    return evaluation, comparison


def run_name(bundle: Bundle, folder: Path) -> str:
    """Returns the name of a bundle's run, else of its folder."""
    run = bundle.facts.get("run")
    return str(run["name"]) if isinstance(run, dict) and "name" in run else folder.name


def record_folder(config: Config, bundle: Path) -> Path:
    """Returns the bundle's folder, or one below `paths.root` if this process may not write beside the bundle."""
    try:
        with tempfile.TemporaryFile(dir=bundle.parent):
            return bundle.parent
    except OSError:
        folder = config.paths.local(config.paths.root) / "evaluations" / bundle_hash(bundle)[:12]
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def compare_rivals(task: Task, config: Config, ours: Any, rivals: Mapping[str, Any]) -> str:
    """Returns a line per rival bundle, by name: both scores, their difference and its probability by chance."""
    lines = []
    for name, rival in rivals.items():
        theirs = task.evaluate(config, rival)
        if type(theirs) is not type(ours):
            raise UserError(
                "evaluate.against: one network denoises, the other translates; they have no figure in common"
            )
        lines.append(ours.compare(theirs, config.evaluate.trials).line(baseline=f" {name}"))
    return "\n".join(lines)
