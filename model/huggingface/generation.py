"""The settings by which transformers generates with a model (config.json, generation_config.json): read, or named."""

from dataclasses import replace
from typing import Any

from dragoman.model.huggingface.folder import Folder
from dragoman.model.schema import build
from dragoman.model.settings import DecodeConfig

SETTINGS = "generation_config.json"
READ = {"num_beams": "beam", "length_penalty": "length_penalty"}  # theirs -> ours
# keys that change nothing here -> the values with which they change nothing there; none: whatever they are
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "min_length": (0,), "min_new_tokens": (0,), "do_sample": (False,), "temperature": (1.0,), "top_k": (50, 0),
    "top_p": (1.0,), "min_p": (0.0,), "typical_p": (1.0,), "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,), "no_repeat_ngram_size": (0,), "encoder_no_repeat_ngram_size": (0,),
    "num_beam_groups": (1,), "diversity_penalty": (0.0,), "guidance_scale": (1.0,), "bad_words_ids": (),
    "suppress_tokens": (), "begin_suppress_tokens": (), "forced_decoder_ids": (), "force_words_ids": (),
    "constraints": (), "sequence_bias": (), "exponential_decay_length_penalty": (), "penalty_alpha": (),
    "force_bos_token_to_be_generated": (False,), "forced_bos_token_id": (),
}  # fmt: skip
IGNORED = {
    *("max_length", "max_new_tokens", "early_stopping", "use_cache", "num_return_sequences", "renormalize_logits"),
    *("remove_invalid_values", "return_dict_in_generate", "output_scores", "output_attentions", "forced_eos_token_id"),
    *("output_hidden_states", "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"),
    *("transformers_version", "_from_model_config"),
}
KEYS = {*READ, *NEUTRAL, *IGNORED}  # older versions wrote them into config.json


def decoding(folder: Folder) -> DecodeConfig:
    """Returns the decoding defaults that the folder names, in our settings."""
    named = {**folder.config, **folder.optional(SETTINGS)}
    values = {ours: named[theirs] for theirs, ours in READ.items() if named.get(theirs) is not None}
    settings = build(DecodeConfig, values, "generation_config")
    return replace(settings, length_penalty=1.0) if settings.length_penalty == "auto" else settings


def not_followed(folder: Folder) -> list[str]:
    """Returns the settings, as KEY=VALUE, by which transformers would generate otherwise.

    A forbidden padding is no such setting: ours never generates it.
    """
    named = {key: folder.config[key] for key in sorted(NEUTRAL) if key in folder.config} | folder.optional(SETTINGS)
    harmless = [[[folder.config.get("pad_token_id")]], [folder.config.get("pad_token_id")]]
    return [
        f"{key}={value!r}"
        for key, value in named.items()
        if not (value is None or key in READ or key in IGNORED or value in NEUTRAL.get(key, ()) or value in harmless)
    ]
