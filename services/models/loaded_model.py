"""A loaded translation model, and the facts that trace an answer to its origin."""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.model.bundles.directory import Bundle
from dragoman.model.bundles.translation import TranslationBundle, read_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import check_translates
from dragoman.model.inference.translator import Translation, Translator, open_translator
from dragoman.model.languages import MANY, base_language
from dragoman.model.settings import AlignmentConfig, DecodeConfig, EngineName
from dragoman.services.models.aligning import AlignerApart
from dragoman.services.models.registry import UNREGISTERED, ModelVersion
from dragoman.services.subprocesses.pool import Pool

if TYPE_CHECKING:
    from dragoman.model.inference.aligner import Aligner

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Origin:
    """The origin of a loaded model, and when it was loaded."""

    name: str  # of the registered model, the run, or the bundle directory
    version: str  # the registered version, or the first 12 digits of the bundle's sha256
    run_id: str
    manifest_hash: str  # of the shards of its training
    loaded: float = field(default_factory=time.time)  # seconds since the epoch

    @classmethod
    def of(cls, bundle: Bundle, version: ModelVersion) -> "Origin":
        """Takes name, version and run from the registry if the bundle came from there, else from the bundle."""
        run: Mapping[str, Any] = bundle.facts.get("run") or {}
        return cls(
            name=version.name or str(run.get("name") or bundle.directory.resolve().name),
            version=version.version or bundle.digest[:12],
            run_id=version.run_id or str(run.get("id") or ""),
            manifest_hash=str(bundle.facts.get("manifest_hash") or ""),
        )

    @classmethod
    def joined(cls, origins: Sequence["Origin"]) -> "Origin":
        """Returns the origin of an answer that several models gave, one after the other: their facts, joined by +."""
        if len(origins) == 1:
            return origins[0]
        names, versions, runs, manifests = (
            "+".join(str(getattr(origin, field)) for origin in origins)
            for field in ("name", "version", "run_id", "manifest_hash")
        )
        return cls(names, versions, runs, manifests, max((origin.loaded for origin in origins), default=0.0))

    def headers(self) -> dict[str, str]:
        """Returns the headers that name the origin of an answer."""
        return dict(self._headers)

    @cached_property
    def _headers(self) -> dict[str, str]:
        facts = {
            "X-Model-Name": self.name,
            "X-Model-Version": self.version,
            "X-Run-Id": self.run_id,
            "X-Manifest-Hash": self.manifest_hash,
        }
        return {key: _clean_header(value) for key, value in facts.items() if value}

    def facts(self) -> dict[str, Any]:
        """Returns the same for /status."""
        return {
            "name": self.name,
            "version": self.version,
            "run_id": self.run_id,
            "manifest_hash": self.manifest_hash,
            "loaded": self.loaded,
        }


def _clean_header(value: str) -> str:
    """Returns `value` with only characters that an HTTP header allows."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in value)


# Every new model must translate these lines before it answers: short, long, odd; by source language.
SMOKE_LINES = {
    "en": ["The dog sees the man.", "Where is the house that my friend bought?"],
    "de": ["Der Hund sieht den Mann.", "Wo ist das Haus, das mein Freund gekauft hat?"],
}
ODD_LINES = ["1", "(?!) \U0001f600 \ufffd", "x " * 400]


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A loaded model. Immutable: it is only replaced as a whole."""

    translator: Translator
    decode: DecodeConfig
    origin: Origin
    source: str  # language
    target: str
    open_aligner: "Callable[[], Aligner | AlignerApart] | None" = None  # for the same bundle; loads it in PyTorch
    aligner: "Aligner | AlignerApart | None" = None  # if set, every translation carries its attention
    bytes: int = 0  # of its engine's weights in memory
    # of a multilingual model: (source, target) -> the tags before a source line, as text
    prefixes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    _kept: "dict[str, LoadedModel]" = field(default_factory=dict, repr=False)  # `aligning`, once requested
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def translate(self, lines: list[str], nbest: int, scored: bool = True) -> list[Translation]:
        """Returns one translation per line with at most `nbest` alternatives; a failed line carries its error.

        Without `scored`, the scores of single translations may be 0, if that is faster.
        """
        decode = dataclasses.replace(self.decode, nbest=min(nbest, self.decode.candidates))
        wishes = {} if scored or decode.nbest > 1 else {"scored": False}
        answers = self.translator.translate(lines, decode, on_error="keep", **wishes)
        return answers if self.aligner is None else add_attention(self.aligner, lines, answers)

    @property
    def aligning(self) -> "LoadedModel":
        """Returns the same model with attention: always the same object, so that its requests are batched together.

        The first call loads the bundle's network in PyTorch, which reads finished translations once more. This also
        applies to exported models: CTranslate2 gives only one head, fixed by the export, and at every step of a search.
        """
        if self.aligner is not None:
            return self
        with self._lock:
            if "aligning" not in self._kept:
                if self.open_aligner is None:
                    raise UserError(f"{self.origin.name}: this model shows no attention")
                self._kept["aligning"] = dataclasses.replace(self, aligner=self.open_aligner(), _kept={})
            return self._kept["aligning"]

    def into(self, source: str, target: str) -> "LoadedModel":
        """Returns the same model for one of its pairs: always the same object, so that its requests are batched."""
        prefix = self.prefixes.get((source, target))
        if prefix is None:
            return self
        with self._lock:
            key = f"{source} {target}"
            if key not in self._kept:
                self._kept[key] = dataclasses.replace(
                    self,
                    source=source,
                    target=target,
                    translator=self.translator.prefixed(prefix),
                    open_aligner=self.open_aligner and partial(_tagged_aligner, self.open_aligner, prefix),
                    prefixes={},
                    _kept={},
                    _lock=threading.Lock(),
                )
            return self._kept[key]

    @property
    def most_alternatives(self) -> int:
        """Returns the number of translations that the search can give besides the best one."""
        return self.decode.candidates - 1

    def facts(self) -> dict[str, str]:
        """Returns the facts for /status beside the origin."""
        return {"source": self.source, "target": self.target}


def load_model(
    directory: Path,
    *,
    engine: EngineName = "auto",
    device: str = "cpu",
    threads: int | None = None,
    version: ModelVersion = UNREGISTERED,
    section: DecodeConfig | None = None,
    overrides: Sequence[str] = (),
    alignment: AlignmentConfig | None = None,
    apart: Pool | None = None,
) -> LoadedModel:
    """Loads the bundle in `directory` and tests it on a few lines. `apart`: the process that shows its attention."""
    check_translates(directory, version.name)
    bundle = read_bundle(directory)
    translator = open_translator(bundle, engine, device=device, threads=threads)
    return _tested(
        bundle,
        translator,
        version,
        chosen_decode(bundle.decode, section, overrides),
        open_aligner=(
            partial(AlignerApart, apart, bundle.directory, alignment or AlignmentConfig(), device)
            if apart
            else partial(_open_aligner, bundle, alignment, device)
        ),
        prefixes=bundle.prefixes if isinstance(bundle, TranslationBundle) and MANY in bundle.languages else {},
    )


def _tested(
    bundle: Any, translator: Translator, version: ModelVersion, decode: DecodeConfig, **attention: Any
) -> LoadedModel:
    """Returns the model once it has answered the test lines; one of many languages in the first of its pairs."""
    source, target = bundle.languages
    served = LoadedModel(
        translator=translator,
        decode=decode,
        origin=Origin.of(bundle, version),
        source=source,
        target=target,
        bytes=translator.engine.bytes if isinstance(translator, Translator) else 0,  # some kinds have no engine
        **attention,
    )
    check_answers(served.into(*next(iter(served.prefixes), ("", ""))))
    return served


def _open_aligner(bundle: TranslationBundle, alignment: AlignmentConfig | None, device: str) -> "Aligner":
    from dragoman.model.inference.aligner import open_aligner  # loads torch

    return open_aligner(bundle, alignment, device)


def _tagged_aligner(open_aligner: "Callable[[], Aligner | AlignerApart]", prefix: str) -> "Aligner | AlignerApart":
    return dataclasses.replace(open_aligner(), prefix=prefix)


def add_attention(
    aligner: "Aligner | AlignerApart", lines: Sequence[str], translations: Sequence[Translation]
) -> list[Translation]:
    """Returns the translations of these lines with their attention; those without text get none."""
    rows = [row for row, translation in enumerate(translations) if translation.nbest and not translation.error]
    maps = aligner.maps([lines[row] for row in rows], [translations[row].nbest[0].ids for row in rows])
    answers = list(translations)
    for row, answer in zip(rows, maps, strict=True):
        answers[row] = dataclasses.replace(answers[row], attention=(answer,))
    return answers


def check_answers(served: LoadedModel) -> None:
    """Warms up the model, and refuses one that fails or returns only empty texts."""
    lines = [*SMOKE_LINES.get(base_language(served.source), []), *ODD_LINES]
    cutting = dataclasses.replace(served.decode, too_long="truncate", nbest=1)  # the longest line tests errors
    answers = served.translator.translate(lines, cutting, on_error="keep")
    for line, answer in zip(lines, answers, strict=True):
        if answer.error:
            raise UserError(f"{served.origin.name}: cannot translate {line[:40]!r}: {answer.error}")
    if not any(answer.text for answer in answers):
        raise UserError(f"{served.origin.name}: gives only empty answers to the {len(lines)} test lines")


def chosen_decode(stored: DecodeConfig, section: DecodeConfig | None, overrides: Sequence[str]) -> DecodeConfig:
    """Returns the bundle's decoding settings, with the keys that the command line sets (`decode.beam=1`).

    The settings were chosen for the model (its length penalty on its validation set), so the configuration's defaults
    do not replace them; `decode=CHOICE` replaces them all.
    """
    if section is None:
        return stored
    words = [word.lstrip("+") for word in overrides]
    names = {word.removeprefix("decode.").partition("=")[0] for word in words if word.startswith("decode.")}
    if any(word.startswith("decode=") for word in words):
        names = {field.name for field in dataclasses.fields(section)}
    changes = {name: getattr(section, name) for name in names}
    if changes.get("length_penalty") == "auto":
        del changes["length_penalty"]
    chosen = dataclasses.replace(stored, **changes)
    chosen.check()
    return chosen
