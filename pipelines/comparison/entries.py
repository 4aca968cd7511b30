"""The networks of a comparison: resolves each item of `models` before anything starts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dragoman.conf import compose, groups
from dragoman.model.bundles.directory import bundle_kind
from dragoman.model.errors import UserError, no_such_key, unknown
from dragoman.model.inference.kinds import open_bundle
from dragoman.model.languages import same_pair
from dragoman.model.networks.architectures import ARCHITECTURES, architecture, model_config
from dragoman.model.runs.paths import BUNDLE
from dragoman.model.schema import build
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.comparison_settings import SHORT, model_file
from dragoman.pipelines.settings import OptimizerConfig

COMPARED = {"translation": "translates", "language": "is a language model"}  # kind -> in a message
# By architecture, under `compare.recipes` and `compare.networks`: the rate that suits one network starves another, and
# post-norm needs a lower rate and a warm-up longer than a short budget has.
RECIPES: dict[str, dict[str, Any]] = {
    "rnnenc": {"lr": 0.002, "schedule": "cosine"},
    "rnnsearch": {"lr": 0.002, "schedule": "cosine"},
    "transformer": {"lr": 0.004, "schedule": "cosine"},
    "prefixlm": {"lr": 0.002, "schedule": "cosine"},
    "rnnlm": {"lr": 0.004, "schedule": "cosine"},
    "gpt": {"lr": 0.004, "schedule": "cosine"},
    "statelm": {"lr": 0.004, "schedule": "cosine"},
}
NETWORKS: dict[str, dict[str, Any]] = {"transformer": {"norm": "pre"}, "prefixlm": {"norm": "pre"}}


@dataclass(frozen=True)
class Entry:
    """One network: its label in every table and picture, and either its training or its bundle."""

    label: str
    config: Config | None = None  # of the run that trains it with the comparison's budget
    bundle: Path | None = None  # an existing bundle
    kind: str = "translation"  # of COMPARED; all entries of a comparison have the same


def resolve(config: Config) -> list[Entry]:
    """Returns an entry for every item of `models`, in their order.

    An item is the name of a file in conf/model (a network to train), or a path, a run's name, NAME@ALIAS or
    NAME/VERSION (an existing bundle).
    """
    config.compare.check()
    if config.loader.denoise != "none":
        raise UserError(
            f"loader.denoise={config.loader.denoise}: a comparison measures translations; pre-train with dragoman "
            f"train, then compare runs that began with it (train.init_from) by their names: models=[RUN,OTHER_RUN]"
        )
    names: object = config.models
    if not isinstance(names, list) or not names:
        raise UserError(
            f"models: {names!r} names no networks. Give some, such as models=[rnnenc,rnnsearch_additive,transformer]. "
            f"Choices: {', '.join(compared_models())}; a run's name, a bundle's directory, MODEL@ALIAS"
        )
    entries = [entry(config, str(item)) for item in names]
    refuse_mixed_kinds(entries)
    refuse_idle_keys(config, entries)
    labels = [entry.label for entry in entries]
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(f"models: {label!r} is listed twice; name each network once")
    return entries


def refuse_mixed_kinds(entries: Sequence[Entry]) -> None:
    """Refuses translation networks beside language models, since they have no figure in common."""
    first = entries[0]
    for other in entries[1:]:
        if other.kind != first.kind:
            raise UserError(
                f"models: {first.label!r} {COMPARED[first.kind]}, {other.label!r} {COMPARED[other.kind]}; "
                f"compare networks of one kind"
            )


def refuse_idle_keys(config: Config, entries: Sequence[Entry]) -> None:
    """Refuses keys of `compare.model` that no network trained here has, since a key without effect is a mistake."""
    keys = {key for entry in entries if entry.config is not None for key in entry.config.model}
    for key in config.compare.model:
        if key not in keys:
            raise no_such_key("compare.model", key, keys)
    for section in ("recipes", "networks"):
        for name in getattr(config.compare, section):
            if name not in ARCHITECTURES:
                raise unknown(f"compare.{section}", name, ARCHITECTURES)


def entry(config: Config, item: str) -> Entry:
    name = model_file(item)
    if name:
        made = run_config(config, name)
        return Entry(name, config=made, kind=architecture(str(made.model["architecture"])).kind)
    try:
        bundle = config.bundle_dir(item, "models")
    except UserError as problem:
        raise UserError(f"{problem}. {unknown('A model to train', item, [*compared_models(), *SHORT])}") from None
    kind = bundle_kind(bundle)
    if kind not in COMPARED:
        raise UserError(
            f"models: {item!r} is a bundle of the kind {kind!r}; compare networks that translate, or language models"
        )
    loaded = open_bundle(bundle)
    if "noise" in loaded.facts:
        raise UserError(
            f"models: {item!r} was pre-trained to undo noise and translates nothing; compare runs that began "
            f"with it (train.init_from={item})"
        )
    same = loaded.pair in config.languages if kind == "language" else same_pair(loaded.pair, config.pair)
    if not same:
        does = "is of" if kind == "language" else "translates"
        raise UserError(f"models: {item!r} {does} {loaded.pair}; the networks compared are of pair={config.pair}")
    return Entry(label_of(item, bundle), bundle=bundle, kind=kind)


def label_of(item: str, bundle: Path) -> str:
    """Returns the folder of a path's run; any other item unchanged."""
    if not Path(item).exists():
        return item.removeprefix("models:/")
    return bundle.parent.name if bundle.name == BUNDLE else bundle.name


def run_config(config: Config, name: str) -> Config:
    """Returns the configuration that trains conf/model/NAME.yaml, as `dragoman train` would get it."""
    values: dict[str, Any] = compose.values([f"model={name}"])["model"]
    if not is_compared(values):
        raise UserError(
            f"models: {name!r} neither translates nor is a language model. Choices: {', '.join(compared_models())}"
        )
    network = str(values["architecture"])
    own = NETWORKS.get(network, {}) | config.compare.networks.get(network, {})
    for key in own:
        if key not in values:
            raise no_such_key(f"compare.networks.{network}", key, values)
    if architecture(network).kind == "language" and values.get("max_positions"):
        values["max_positions"] = config.loader.context_length  # a position that no training window had means nothing
    values |= own | {key: value for key, value in config.compare.model.items() if key in values}
    model_config(values)
    recipe = RECIPES.get(network, {}) | config.compare.recipes.get(network, {})
    optimizer = build(OptimizerConfig, asdict(config.train.optimizer) | recipe, f"compare.recipes.{network}")
    return replace(
        config,
        name=f"{config.compare.name}-{name}",
        models=[],
        model=values,
        train=replace(config.train, optimizer=optimizer),
        registry=replace(config.registry, register=False),
    )


def compared_models() -> list[str]:
    """Returns the names in conf/model that can be trained and compared."""
    return [name for name in groups.choices("model") if is_compared(groups.merge_choice("model", name))]


def is_compared(values: dict[str, Any]) -> bool:
    """Returns True if a model's plain values describe a network of a kind that is compared."""
    name = values.get("architecture")
    return name in ARCHITECTURES and architecture(name).kind in COMPARED
