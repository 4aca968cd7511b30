"""Takes the sizes and switches of a network from the bundle that `train.init_from` names, where the user chose none.

A network that begins with another's weights has its sizes. Without `model=` it is the same network; a network with a
head takes those of the encoder below it. What the user chose stays, and is compared with the bundle before a training.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.conf import compose
from dragoman.model.bundles.directory import read_facts
from dragoman.model.errors import UserError
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import as_sharded, find_given_keys
from dragoman.pipelines.corpus.sizes import as_counted, as_fitting

KEY = "train.init_from"
OWN = ("architecture", "name", "head", "pooling", "tie", "dropout", "attention_dropout", "activation_dropout")
ENCODERS = ("bert", "transformer_head")  # networks with the same stack


def as_begun(values: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Returns dotted key -> value of the section `model` from the bundle of `train.init_from`; empty without one."""
    reference, ours = values["train"]["init_from"], values["model"]
    if not reference:
        return {}
    try:
        model: dict[str, Any] = read_facts(compose.typed(Config, values).bundle_dir(reference, KEY))["model"]
    except UserError:
        return {}  # told when the training checks its settings
    chosen = find_given_keys(words, values)
    positions = model.get("max_positions", 0) - len(model.get("prefix") or ())
    lengths = {  # no longer than the network reads
        f"loader.{key}": positions
        for key in ("max_length", "context_length")
        if 0 < positions < values["loader"][key] and f"loader.{key}" not in chosen
    }
    theirs, architecture = str(model["architecture"]), str(ours["architecture"])
    if theirs != architecture and not {theirs, architecture} <= {*ENCODERS}:
        started = (
            "head" not in ours and "head" not in model and not any(key.partition(".")[0] == "model" for key in chosen)
        )
        return {"model": model, **lengths} if started else {}
    return lengths | {
        f"model.{key}": value
        for key, value in model.items()
        if key in ours and key not in OWN and f"model.{key}" not in chosen
    }


def begun_words(kind: Sequence[str], config: Config) -> list[str]:
    """Returns the words of a network (`conf/kinds.py`) that begins with the imported model whose tokenizer is taken."""
    with contextlib.suppress(UserError):  # the tokenizer of other shards
        facts = read_facts(config.bundle_dir(str(config.tokenizer.same_as), KEY))
        if config.tokenizer.type == "huggingface" or "imported" in facts:
            same = {"registry=language": f"registry={facts.get('kind', 'translation')}"}
            own = [same.get(word, word) for word in kind if word != "model=gpt_tiny"]
            return [*own, f"{KEY}={config.tokenizer.same_as}"]
    return list(kind)


FACTS: dict[str, compose.Facts] = {  # command -> what settles the settings that nobody chose, one after the other
    "shard": (as_counted,),
    "train": (as_sharded, as_begun, as_fitting),
    "compare": (as_sharded, as_begun),
    "evaluate": (as_sharded,),
    "promote": (as_sharded,),
}
