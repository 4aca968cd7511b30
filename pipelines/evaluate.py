"""`dragoman evaluate`: a bundle's scores on a held-out set, and against other bundles' when asked.

Word vectors are measured on other sets, in
`pipelines/tasks/vectors_evaluate.py`; language models by the likelihood of a
held-out text, in `pipelines/tasks/language_evaluate.py`.
"""

import logging
import sys
from dataclasses import replace
from pathlib import Path

from conf import compose
from model.bundles.directory import bundle_kind
from model.errors import UserError
from model.names import check_name
from pipelines.config import Config
from pipelines.evaluation.metrics import paired_bootstrap
from pipelines.evaluation.translation import Evaluation, evaluate_bundle, held_out, report, write_evaluation
from pipelines.evaluation.tuning import gate_int8, tune_length_penalty

__all__ = ["Evaluation", "evaluate_bundle", "gate_int8", "held_out", "tune_length_penalty"]

logger = logging.getLogger(__name__)


def main(argv: list[str]) -> int:
    """The verb's entry point; its exit code."""
    return compose.run(task, Config, argv, "evaluate")


def task(config: Config) -> int:
    """Evaluate, print, and keep the record beside the bundle."""
    settings = config.evaluate
    directory = locate(config, settings.bundle)
    rivals = [settings.against] if isinstance(settings.against, str) else settings.against or []
    kind = bundle_kind(directory)
    if kind == "vectors":
        from pipelines.tasks.vectors_evaluate import task as evaluate_vectors

        return evaluate_vectors(config, directory, rivals, lambda rival: locate(config, rival))
    if kind != "translation":
        from pipelines.tasks.language_evaluate import task as evaluate_language

        return evaluate_language(config, directory, rivals, lambda rival: locate(config, rival))
    evaluation = evaluate(config, directory)
    print(report(evaluation))
    record, texts = write_evaluation(evaluation, directory.parent)
    logger.info(f"kept in {record} and {texts}")
    if settings.alignment:
        from pipelines.tasks.alignment_report import measure_run

        measure_run(config, directory)
    for rival in rivals:
        other = evaluate(config, locate(config, rival))
        print("", comparison(other, evaluation, settings.bootstrap, settings.tokenize), sep="\n")
    return compose.OK


def evaluate(config: Config, directory: Path) -> Evaluation:
    """`evaluate_bundle` by the sections `evaluate` and `decode`."""
    settings = config.evaluate
    return evaluate_bundle(
        directory,
        config.shard_dir,
        settings.split,
        config.decode,
        engine=settings.engine,
        sentences=settings.sentences,
        samples=settings.samples,
        tokenize=settings.tokenize,
        penalties=settings.length_penalties,
    )


def comparison(baseline: Evaluation, candidate: Evaluation, samples: int, tokenize: str = "auto") -> str:
    """One line: both scores, their difference and how likely it is by chance."""
    language = candidate.pair.partition("-")[2]
    found = paired_bootstrap(
        baseline.hypotheses, candidate.hypotheses, candidate.references, language, tokenize, samples
    )
    return (
        f"BLEU {found.candidate:.2f} against {found.baseline:.2f}: {found.difference:+.2f} "
        f"(mean of {found.samples:,} resampled sets {found.mean_difference:+.2f}, p = {found.p_value:.4f}) "
        f"{found.signature}"
    )


def locate(config: Config, wanted: str | None, key: str = "evaluate.bundle") -> Path:
    """The bundle directory of a path, of a run's name or of a registered version, which is downloaded where needed.

    `key`: the setting that asks, for the message.

    Raises:
        UserError: nothing of that name; says where it was looked for.
    """
    if wanted is None:
        directory = config.run_dir / "bundle"
        if not (directory / "config.json").is_file():
            raise UserError(
                f"{key}: the run {config.name!r} has no bundle yet ({directory}); train it, or name another"
            )
        return directory
    runs = Path(config.paths.runs).absolute()
    for directory in (Path(wanted), Path(wanted) / "bundle", runs / wanted / "bundle"):
        if (directory / "config.json").is_file():
            return directory.absolute()
    reference = wanted.removeprefix("models:/")
    for separator in ("@", "/"):
        name, found, version = reference.partition(separator)
        if found and name and version and (separator == "@" or version.isdigit()):
            return registered(config, name, version, separator == "@", key)
    raise UserError(
        f"{key}: {wanted!r} is neither a bundle's directory nor a run in {runs}. "
        f"Choices: a path, a run's name, MODEL@ALIAS or MODEL/VERSION of the registry"
    )


def registered(config: Config, name: str, version: str, is_alias: bool, key: str = "evaluate.bundle") -> Path:
    """The bundle of a registered version."""
    from pipelines.tracking.registry import Registry

    check_name(key, name)
    registry = Registry(config.tracking, replace(config.registry, name=name, alias=version if is_alias else "champion"))
    found = registry.champion() if is_alias else registry.version(version)
    if found is None:
        raise UserError(
            f"{key}: the registered model {name!r} has no version with the alias {version!r}; "
            f"`dragoman promote registry.name={name} registry.alias={version}` gives it to the better one"
        )
    return registry.bundle(found, Path(config.paths.root).absolute() / "versions" / name / found.number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
