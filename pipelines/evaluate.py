"""`dragoman evaluate`: scores a bundle on a held-out set, and compares it with other bundles on request.

dragoman evaluate evaluate.split=valid                             the run `name`
dragoman evaluate evaluate.ensemble=[RUN,OTHER_RUN]                translation models of one tokenizer, decoded as one
dragoman evaluate evaluate.bundle=RUN evaluate.against=OTHER_RUN   language models: the likelihood of the same text
dragoman evaluate evaluate.bundle=RUN evaluate.against=[glove,tfidf,one_hot] vectors=english ...
"""

import contextlib
import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from dragoman.conf import compose, showing
from dragoman.model.bundles.directory import Bundle, bundle_hash, bundle_kind
from dragoman.model.bundles.ensemble import EnsembleBundle, load_ensemble
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import KINDS, open_bundle
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.base import Evaluation
from dragoman.pipelines.tasks.base import compare_rivals, task_of
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
    bundle, folder = evaluated(config)
    kind = "translation" if settings.ensemble else bundle_kind(bundle.directory)
    row, load = task_of(kind), KINDS[kind].load
    against = [settings.against] if isinstance(settings.against, str) else settings.against or []
    rivals = {rival: load(config.bundle_dir(rival, "evaluate.against")) for rival in against}
    run = run_name(bundle, folder)
    about = describe_set(config, folder, run, members(bundle)) if row.training.held_out else ""
    evaluation = row.evaluate(config, bundle)
    say(evaluation.report())
    if about:
        say(f"\n{about}")
    files = evaluation.write(folder)
    logger.info(f"kept in {' and '.join(map(str, files))}")
    comparison = compare_rivals(row, config, evaluation, rivals) if rivals else ""
    return evaluation, comparison


def run_name(bundle: Bundle, folder: Path) -> str:
    """Returns the name of a bundle's run; for an ensemble its folder's name."""
    run = bundle.facts.get("run")
    return str(run["name"]) if isinstance(run, dict) and "name" in run else folder.name


def members(bundle: Bundle) -> list[Path]:
    """Returns the folder of a bundle, or those of an ensemble's members."""
    return [member.directory for member in bundle.members] if isinstance(bundle, EnsembleBundle) else [bundle.directory]


def record_folder(config: Config, bundle: Path) -> Path:
    """Returns the bundle's folder, or one below `paths.root` if this process may not write beside the bundle."""
    try:
        with tempfile.TemporaryFile(dir=bundle.parent):
            return bundle.parent
    except OSError:
        folder = config.paths.local(config.paths.root) / "evaluations" / bundle_hash(bundle)[:12]
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def evaluated(config: Config) -> tuple[Bundle, Path]:
    """Returns the bundle to evaluate and the folder for the record: beside the bundle, or an ensemble's own.

    Raises UserError: an unknown name, both a bundle and an ensemble, or members that do not match.
    """
    settings = config.evaluate
    if not settings.ensemble:
        directory = config.bundle_dir(settings.bundle, "evaluate.bundle")
        return open_bundle(directory), record_folder(config, directory)
    if settings.bundle is not None:
        raise UserError(
            f"evaluate.bundle={settings.bundle} and evaluate.ensemble=[{','.join(settings.ensemble)}] ask for two "
            f"evaluations; choose one"
        )
    key = "evaluate.ensemble"
    ensemble = load_ensemble([config.bundle_dir(reference, key) for reference in settings.ensemble], key)
    folder = config.paths.local(config.paths.root) / "ensembles" / ensemble.digest[:12]
    folder.mkdir(parents=True, exist_ok=True)
    return ensemble, folder
