"""Trained models in this process."""

import os
import pathlib
import re
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from dragoman._errors import one_exception
from dragoman._results import Alternative, Neighbour, Translation
from dragoman._settings import Path, configure, words_of
from dragoman.model.errors import UserError
from dragoman.model.runs.paths import BUNDLE

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from dragoman.pipelines.config import Config
    from dragoman.services.models.registry import ModelVersion

REGISTERED = re.compile(r"[^/@]+(@[^/@]+|/\d+)")  # NAME@ALIAS or NAME/VERSION
AT_ONCE = 256  # texts


def load(
    reference: Path,
    *overrides: str,
    device: Literal["cpu", "cuda"] = "cpu",
    config: Path | None = None,
    **settings: Any,
) -> "Model":
    """Loads a finished model: a run's name or folder, a bundle's folder, `NAME@ALIAS` or `NAME/VERSION` of the registry
    (with or without `models:/`), or a registered model's name, which means its champion.

    Settings give the places to look (`paths.root`, `tracking.uri`) and the decoding (`decode.beam`).

    Raises:
        DragomanError: an unknown name, or no valid bundle.
    """
    with one_exception():
        from dragoman.pipelines.config import Config
        from dragoman.services.models.home import Home
        from dragoman.services.models.source import check_device

        words = words_of(overrides, config, settings)
        whole = configure(Config, words)
        check_device(Home(device=device))
        folder, version = _find(os.fspath(reference), whole)
        return Model(folder, version, whole, words, device)


class Model:
    """A loaded model. Its `kind` decides which methods work; others raise DragomanError. Safe to call from several
    threads."""

    kind: str  # "translation", "language", "masked", "vectors" or "labels"
    name: str  # in the registry, else its run's name
    version: str | None  # in the registry
    folder: pathlib.Path  # the bundle's folder

    def __init__(
        self, folder: pathlib.Path, version: "ModelVersion", config: "Config", words: Sequence[str], device: str
    ) -> None:
        """Private: `dragoman.load` makes one."""
        from dragoman.model.bundles.directory import bundle_kind
        from dragoman.model.bundles.vectors import load_vectors
        from dragoman.model.inference.kinds import KINDS, kind_of
        from dragoman.services.models.loaded_model import load_model

        self.kind = bundle_kind(folder)
        self.name = version.name or (folder.parent.name if folder.name == BUNDLE else folder.name)
        self.version = version.version or None
        self.folder = folder
        self._device = device
        self._lock = threading.Lock()
        self._sentences: Any = None
        kind_of(folder)  # refuses a folder without a bundle
        self._loaded: Any
        if self.kind == "translation":
            self._loaded = load_model(
                folder,
                device=device,
                version=version,
                section=config.decode,
                overrides=words,
                alignment=config.alignment,
            )
        elif self.kind == "vectors":
            self._loaded = load_vectors(folder)
        else:
            self._loaded = KINDS[self.kind].load(folder)
            self._loaded.network.to(device)

    def __repr__(self) -> str:
        return f"<dragoman.Model {self.name}: {self.kind}{f', version {self.version}' if self.version else ''}>"

    @property
    def languages(self) -> tuple[str, ...]:
        """Returns source and target of a translation model; else the one language, if known."""
        if self.kind == "translation":
            return (self._loaded.source, self._loaded.target)
        pair = getattr(self._loaded, "pair", "")
        return (str(pair),) if pair else ()

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is a sequence of them too; this one comes first
        self, texts: str, *, nbest: int = 1, split: bool = False
    ) -> Translation: ...
    @overload
    def translate(self, texts: Sequence[str], *, nbest: int = 1, split: bool = False) -> list[Translation]: ...
    def translate(
        self, texts: str | Sequence[str], *, nbest: int = 1, split: bool = False
    ) -> Translation | list[Translation]:
        """Translates a text, or each of several in order; with `split` sentence by sentence.

        Raises:
            DragomanError: the model does not translate, more alternatives than its search finds (`decode.beam`), or a
            text
                that fails.
        """
        with one_exception():
            self._must("translation", "translate")
            from dragoman.services.commands.translate import translate_lines
            from dragoman.services.settings import TranslateConfig

            most = self._loaded.decode.candidates
            if not 1 <= nbest <= most:
                raise UserError(f"nbest={nbest}: the search finds 1 to {most}; load with **{{'decode.beam': {nbest}}}")
            how = TranslateConfig(nbest=nbest, split=split)
            lines = _texts(texts)
            translations: list[Translation] = []
            for start in range(0, len(lines), AT_ONCE):
                for place, answer in enumerate(
                    translate_lines(self._loaded, lines[start : start + AT_ONCE], how), start
                ):
                    if answer.error:
                        raise UserError(f"text {place + 1}: {answer.error}")
                    more = tuple(Alternative(alternative.text, alternative.score) for alternative in answer.nbest)
                    lost = answer.truncated, answer.unknown, answer.missing, answer.loops
                    translations.append(Translation(answer.text, answer.score, more, *lost))
            return translations[0] if isinstance(texts, str) else translations

    def neighbours(self, word: str, k: int = 10) -> list[Neighbour]:
        """Returns the words nearest to a word, by its vector.

        Raises:
            DragomanError: the model is of another kind, or does not know the word.
        """
        with one_exception():
            self._must("vectors", "neighbours")
            return [
                Neighbour(neighbour.word, neighbour.similarity)
                for neighbour in self._loaded.embeddings.neighbours(word, k)
            ]

    def analogy(self, a: str, b: str, c: str, k: int = 1) -> list[Neighbour]:
        """Returns the words that are to `c` as `b` is to `a`.

        Raises:
            DragomanError: as `neighbours`.
        """
        with one_exception():
            self._must("vectors", "analogy")
            return [
                Neighbour(neighbour.word, neighbour.similarity)
                for neighbour in self._loaded.embeddings.analogy(a, b, c, k)
            ]

    def generate(self, prompt: str, **settings: Any) -> str:
        """Continues a text with a language model; settings are those of the section `generate` (`max_tokens=50`).

        Raises:
            DragomanError: the model is of another kind, or a setting is invalid.
        """
        with one_exception():
            self._must("language", "generate")
            from dragoman.model.decoding.generation import generate
            from dragoman.model.schema import convert
            from dragoman.model.settings import GenerateConfig

            how = convert(GenerateConfig, settings, "generate")
            bundle = self._loaded
            network, (text,) = bundle.language_network, _texts(prompt)
            return str(generate(network, bundle.tokenizer, [text], how, bundle.normalisation)[0][0].text)

    def predict(self, texts: str | Sequence[str], best: int = 5) -> Any:
        """Returns what the model says of a text, or of each of several, like `dragoman predict`.

        A model that labels gives classes, the likeliest first, or words with their tags. A masked
        model gives the `best` tokens for each mask, a language model those that come next, with the resulting text.

        Raises:
            DragomanError: the model is of another kind, or a text has no mask.
        """
        with one_exception():
            if self.kind in ("translation", "vectors"):
                self._must("labels", "predict")
            from dragoman.services.commands.predict import predictor

            predictions = predictor(self._loaded, self._device, best)(_texts(texts))
            return predictions[0] if isinstance(texts, str) else predictions

    def embed(self, texts: str | Sequence[str]) -> "NDArray[numpy.float32]":
        """Returns the texts as vectors, one row each, like `dragoman embed`; for one text a single row.

        Raises:
            DragomanError: the model has no text vectors.
        """
        with one_exception():
            from dragoman.model.inference.kinds import open_bundle
            from dragoman.model.inference.sentence_vectors import sentence_vectors

            with self._lock:
                if self._sentences is None:
                    self._sentences = sentence_vectors(open_bundle(self.folder), self._device)
                vectors: NDArray[numpy.float32] = self._sentences(_texts(texts))
            return vectors[0] if isinstance(texts, str) else vectors

    def _must(self, kind: str, method: str) -> None:
        if self.kind != kind:
            from dragoman.model.inference.kinds import KINDS

            can = {
                "translation": "translate, embed",
                "language": "generate, predict, embed",
                "masked": "predict, embed",
                "labels": "predict, embed",
                "vectors": "neighbours, analogy, embed",
            }[self.kind]
            raise UserError(f"{self.name} holds {KINDS[self.kind].what}: {method} is not for it; it has {can}")


def _texts(texts: str | Sequence[str]) -> list[str]:
    lines = [texts] if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)
    wrong = [line for line in lines if not isinstance(line, str)]
    if wrong:
        raise UserError(f"{wrong[0]!r} is no text; give a str, or several in a list")
    return lines


def _find(reference: str, config: "Config") -> tuple[pathlib.Path, "ModelVersion"]:
    """Returns the bundle's folder, and the version if it is in the registry."""
    from dragoman.model.storage.places import local_folder
    from dragoman.services.models.registry import UNREGISTERED, Registry

    registry = Registry(config.tracking.uri, local_folder(config.paths.root, config.paths.cache) / "cache" / "models")
    name = reference.removeprefix("models:/")
    if name != reference or (REGISTERED.fullmatch(reference) and not pathlib.Path(reference).exists()):
        version = registry.resolve(f"models:/{name}" if "@" in name or "/" in name else f"models:/{name}@champion")
        return registry.fetch(version), version
    try:
        return config.bundle_dir(reference, "load"), UNREGISTERED
    except UserError as problem:
        if pathlib.PurePath(name).name != name:  # a path
            raise
        try:
            version = registry.resolve(f"models:/{name}@champion")
        except UserError as unregistered:
            raise UserError(f"{problem}; {unregistered}") from None
        return registry.fetch(version), version
