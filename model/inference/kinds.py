"""The kinds of finished model, one row each: the name of its bundle, how to open it, and its answers.

What computes with torch is imported when it is asked: a service that translates with CTranslate2 loads no torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman.model.bundles.directory import CONFIG, Bundle, bundle_kind
from dragoman.model.bundles.translation import read_bundle
from dragoman.model.errors import UserError, unknown
from dragoman.model.inference.translator import open_translator
from dragoman.model.loaded import later
from dragoman.model.schema import build
from dragoman.model.settings import DecodeConfig, GenerateConfig
from dragoman.model.text.labelled_words import Words

Settings = Mapping[str, int | float]
Answers = Callable[[Sequence[str], Settings], list[Any]]  # texts, and settings that differ from the bundle's own


@dataclass(frozen=True)
class Kind:
    """One kind of model."""

    what: str  # as in a sentence: "a translation model"
    use: str  # what to do with it, for users who gave it where another kind is needed
    load: Callable[[Path], Bundle]
    answers: Callable[[Any], Answers]  # of a loaded bundle: one answer per text, in order
    settings: Callable[[Mapping[str, Any]], Settings] = lambda config: {}  # of `answers`, by the bundle's config.json


def translations(bundle: Any) -> Answers:
    translator = open_translator(bundle)

    def answers(texts: Sequence[str], settings: Settings) -> list[str]:
        changes: dict[str, Any] = {"nbest": 1, **settings}
        decode = replace(translator.decode, **changes)
        return [translation.text for translation in translator.translate(list(texts), decode)]

    return answers


def decoding(config: Mapping[str, Any]) -> Settings:
    """Returns the bundle's decoding settings that a caller may change; the endpoint uses them too."""
    decode = build(DecodeConfig, config.get("decode") or {}, "decode")
    return {"beam": decode.beam, "length_penalty": float(decode.alpha)}


def continuations(bundle: Any) -> Answers:
    from dragoman.model.decoding.generation import generate

    network, tokenizer, form = bundle.language_network, bundle.tokenizer, bundle.normalisation

    def answers(texts: Sequence[str], settings: Settings) -> list[str]:
        generated = generate(network, tokenizer, list(texts), build(GenerateConfig, settings, "params"), form)
        return [texts_of_row[0].text for texts_of_row in generated]

    return answers


def sampling(_config: Mapping[str, Any]) -> Settings:
    drawn = GenerateConfig()
    names = ("temperature", "top_k", "top_p", "max_tokens", "lines", "seed")
    return {name: getattr(drawn, name) for name in names}


def filled_texts(bundle: Any) -> Answers:
    """Answers each text with `<mask>` in it with the text filled with the likeliest tokens."""
    from dragoman.model.decoding.fill_mask import fill_masks

    network, form = bundle.network, bundle.normalisation
    return lambda texts, _settings: [mask.text for mask in fill_masks(network, bundle.tokenizer, list(texts), 1, form)]


def word_vectors(bundle: Any) -> Answers:
    """Answers each word with its vector, as plain numbers."""
    embeddings = bundle.embeddings
    return lambda words, _settings: [[float(number) for number in embeddings.vector(word)] for word in words]


def labels(bundle: Any) -> Answers:
    """Answers each text with its label, or the tags of its words."""
    from dragoman.model.inference.labeller import Labeller

    labeller = Labeller(bundle)

    def answers(texts: Sequence[str], _settings: Settings) -> list[str]:
        if bundle.task == "tags":
            tagged = labeller.tag([Words.split(text) for text in texts])
            return [" ".join(word.tag for word in words) for words in tagged]
        return [row[0].label for row in labeller.classify(texts)]

    return answers


text_bundle = later("dragoman.model.bundles.language:load_text_bundle")
KINDS: dict[str, Kind] = {
    "translation": Kind(
        "a translation model",
        "translate with it (dragoman translate), or serve it (dragoman serve bundle=...)",
        read_bundle,
        translations,
        decoding,
    ),
    "language": Kind(
        "a language model",
        "continue texts with it (dragoman generate, predict), or score them (dragoman score)",
        text_bundle,
        continuations,
        sampling,
    ),
    "masked": Kind(
        "a masked language model",
        "fill texts with it (dragoman predict), or turn them into vectors (dragoman embed)",
        text_bundle,
        filled_texts,
    ),
    "vectors": Kind(
        "word vectors",
        "query them with query.vectors=... (dragoman neighbours, analogy), or serve them with mlflow models serve",
        later("dragoman.model.bundles.vectors:load_vectors"),
        word_vectors,
    ),
    "labels": Kind(
        "a model that labels texts",
        "label texts with it (dragoman predict), or serve it with mlflow models serve",
        later("dragoman.model.bundles.labelled:load_label_bundle"),
        labels,
    ),
}


def kind_of(directory: Path) -> Kind:
    """Returns the row of the bundle in `directory`."""
    name = bundle_kind(directory)
    if name not in KINDS:
        raise unknown(f"{directory / CONFIG}: kind", name, KINDS)
    return KINDS[name]


def open_bundle(directory: Path) -> Bundle:
    """Loads the bundle in `directory`, whatever its kind, and checks every file."""
    return kind_of(directory).load(directory)


def open_answers(directory: Path) -> Answers:
    """Returns the function with which the bundle in `directory` answers texts."""
    return kind_of(directory).answers(open_bundle(directory))


def check_translates(directory: Path, name: str = "") -> None:
    """Refuses a bundle that does not translate; `name` is the name of the registered model, if it has one."""
    kind = kind_of(directory)
    if kind is not KINDS["translation"]:
        raise UserError(f"{name or directory} holds {kind.what}, not {KINDS['translation'].what}: {kind.use}")
