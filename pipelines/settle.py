"""The one place that says which settings follow from the data where the user chose none.

| verb | follows from | settings |
|---|---|---|
| shard | that the corpus has pairs | the vocabulary, which fits their number once they are counted |
| train, compare, evaluate, promote | the manifest of `paths.shards` | corpus, tokenizer, pair |
| train, compare | the bundle of `train.init_from` | the network and its sizes |
| import, sync, verify | nothing: a name has no default | name, pair, the registered name |
| train | the number of pairs, texts or tokens, `train.max_minutes` | batch, steps, rate, layers (`corpus/sizes.py`) |

What the user gives, on the command line or in an experiment, stays.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from dragoman.conf import compose
from dragoman.conf.kinds import LANGUAGE_MODEL
from dragoman.model.bundles.directory import read_facts
from dragoman.model.errors import UserError
from dragoman.model.runs.record import read_plans, read_record
from dragoman.model.schema import flat
from dragoman.model.shards.manifest import has_manifest, read_manifest
from dragoman.model.storage.places import local_folder
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import as_sharded
from dragoman.pipelines.corpus.sizes import BATCH, LAYERS, STEPS, VOCABULARY, WARMUP, as_counted, fitting

INIT = "train.init_from"
NAMED_BY_USER = {"import": ("name", "pair", "registry.name"), "sync": ("name",), "verify": ("name",)}
READ_SHARDS = {"train", "compare", "evaluate", "promote"}
BEGIN = {"train", "compare"}
# settings that a network does not take from the one that it begins with
OWN = ("architecture", "name", "head", "pooling", "tie", "dropout", "attention_dropout", "activation_dropout")
ENCODERS = ("bert", "transformer_head")  # networks with the same stack
NETWORK = "transformer_modern"
OF_OPTIMIZER = {f"train.optimizer.{key}" for key in ("kind", "lr", "weight_decay", "split_packed", "schedule")}
OF_NETWORK = {"model.dropout", LAYERS}  # that fit this network alone
OF_LABELS = (STEPS, WARMUP, "train.evaluate_every", "train.checkpoint_every")  # what a head takes for its texts
SHORT = 10  # minutes, in which many steps of a shallow network and a small batch learn most (docs/recipe.md)
SHALLOW, SMALL = 2, 1024  # layers of the encoder; tokens a lane, at most
SHORT_WARMUP = 10  # of Muon, whose steps have one length from the first on (docs/recipe.md)
TRANSLATING = {"transformer", "rnnsearch", "rnnenc", "prefixlm"}
READING = {"gpt", "rnnlm", "statelm", "bert"}  # networks of texts of one language
TOKENS_A_PAIR = 20  # so that a text counts by its length, be its records lines or chapters (docs/notes/sizes.md)
SMOOTHING = "train.loss.label_smoothing"
logger = logging.getLogger(__name__)


def settle(verb: str, current: Callable[[], Mapping[str, Any]], chosen: Set[str]) -> Iterator[Mapping[str, Any]]:
    """Yields dotted key -> value of the settings that follow from the data, step by step.

    `current` returns the composed values with what was yielded before; `chosen` are the keys that the user chose.

    Raises UserError: a given key contradicts the shards.
    """
    yield {key: "" for key in NAMED_BY_USER.get(verb, ()) if key not in chosen}
    if verb == "shard":
        yield as_counted(current(), chosen)
    if verb in READ_SHARDS:
        yield as_sharded(current(), chosen)
    if verb in BEGIN:
        yield as_begun(current(), chosen)
    if verb == "train":
        values = as_fitting(current(), chosen)
        if values and not compose.is_rehearsal():
            logger.info(f"fits the data: {' '.join(f'{key}={value}' for key, value in sorted(values.items()))}")
        yield values


def as_begun(values: Mapping[str, Any], chosen: Set[str]) -> dict[str, Any]:
    """Returns the section `model` as the bundle of `train.init_from` has it; empty without one.

    Without `model=` it is the same network; a network with a head takes the sizes of the encoder below it.
    """
    reference, ours = values["train"]["init_from"], values["model"]
    if not reference:
        return {}
    try:
        model: dict[str, Any] = read_facts(compose.typed(Config, values).bundle_dir(reference, INIT))["model"]
    except UserError:
        return {}  # told when the training checks its settings
    positions = model.get("max_positions", 0) - len(model.get("prefix") or ())
    lengths = {  # no longer than the network reads
        f"loader.{key}": positions
        for key in ("max_length", "context_length")
        if 0 < positions < values["loader"][key] and f"loader.{key}" not in chosen
    }
    theirs, architecture = str(model["architecture"]), str(ours["architecture"])
    if theirs != architecture and not {theirs, architecture} <= {*ENCODERS}:
        chose_network = any(key.partition(".")[0] == "model" for key in chosen)
        return {"model": model, **lengths} if not ({"head"} & {*ours, *model} or chose_network) else {}
    return lengths | {
        f"model.{key}": value
        for key, value in model.items()
        if key in ours and key not in OWN and f"model.{key}" not in chosen
    }


def begun_words(kind: Sequence[str], config: Config) -> list[str]:
    """Returns the words of a network (`conf/kinds.py`) that begins with the imported model whose tokenizer is taken."""
    with contextlib.suppress(UserError):  # the tokenizer of other shards
        facts = read_facts(config.bundle_dir(str(config.tokenizer.same_as), INIT))
        if config.tokenizer.type == "huggingface" or "imported" in facts:
            same = {"registry=language": f"registry={facts.get('kind', 'translation')}"}
            own = [same.get(word, word) for word in kind if word != LANGUAGE_MODEL]
            return [*own, f"{INIT}={config.tokenizer.same_as}"]
    return list(kind)


def as_fitting(values: Mapping[str, Any], chosen: Set[str]) -> dict[str, Any]:
    """Returns the settings of a training that fit its pairs, the steps of a head or a language model its texts.

    The warm-up of every network is at most a tenth of the steps. An experiment is a whole recipe: it settles nothing.
    A run that has begun keeps what it began with.
    """
    shards = local_folder(values["paths"]["shards"], values["paths"]["cache"])
    if "experiment" in chosen or not has_manifest(shards):
        return {}
    model, train = values["model"], values["train"]
    chosen = chosen | {VOCABULARY}
    manifest, loader = read_manifest(shards), values["loader"]
    split = manifest.splits["train"]
    reads = model.get("architecture") in READING
    settings = {WARMUP: train["optimizer"]["warmup_steps"]}
    if reads:
        tokens = split.target_tokens if loader["side"] == "target" else split.source_tokens
        fit = fitting(tokens // TOKENS_A_PAIR)
        settings = {key: fit[key] for key in (*OF_LABELS, *OF_OPTIMIZER)} | {
            BATCH: max(fit[BATCH], loader["context_length"]),
            SMOOTHING: 0.0,
        }
    elif manifest.kind == "labelled":
        fit = fitting(split.records)
        settings = {key: fit[key] for key in OF_LABELS}
    elif manifest.kind == "parallel" and model.get("architecture") in TRANSLATING and loader["denoise"] == "none":
        settings = fit = fitting(split.records)
        if 0 < train["max_minutes"] <= SHORT:
            settings = fit | {LAYERS: SHALLOW, BATCH: min(fit[BATCH], SMALL)}
    if STEPS in chosen:
        settings[WARMUP] = min(settings[WARMUP], max(1, train["max_steps"] // 10))
    if model["name"] != NETWORK or train["init_from"]:
        chosen |= OF_NETWORK
    if train["init_from"] or (not reads and model.get("norm") == "post"):  # these learn at Adam's lower rates
        chosen |= OF_OPTIMIZER
    elif settings.keys() >= OF_OPTIMIZER and not chosen & OF_OPTIMIZER:
        settings[WARMUP] = min(settings[WARMUP], SHORT_WARMUP)
    begun = begun_settings(Path(local_folder(values["paths"]["runs"], values["paths"]["cache"])) / values["name"])
    settled = {key: begun.get(key, value) for key, value in settings.items() if key not in chosen}
    return {} if settled == {WARMUP: train["optimizer"]["warmup_steps"]} else settled


def begun_settings(run: Path) -> dict[str, Any]:
    """Returns dotted key -> value of what a run began with, and the steps of its last plan; empty for a new run."""
    plans = [{STEPS: plan["max_steps"]} for plan in read_plans(run)]
    return dict(flat(read_record(run) or {})) | (plans[-1] if plans else {})
