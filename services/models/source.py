"""The model that a service uses: a bundle's directory, or the version that a registry reference names."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.model.alignment.attention_map import AlignmentConfig
from dragoman.model.bundles.download import bundle_folder
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import check_translates
from dragoman.model.runs.bundles import bundles, find_bundle
from dragoman.model.settings import DecodeConfig
from dragoman.services.models.loaded_model import LoadedModel, load_model
from dragoman.services.models.registry import UNREGISTERED, ModelVersion, Registry
from dragoman.services.settings import BundleSource, ModelSource
from dragoman.services.subprocesses.pool import Pool

if TYPE_CHECKING:
    from dragoman.model.bundles.language import TextBundle, TextKind

logger = logging.getLogger(__name__)


class Loader:
    """Loads models of one source, with the decoding settings of a command line (see `served.chosen_decode`)."""

    def __init__(
        self,
        source: ModelSource,
        decode: DecodeConfig | None = None,
        overrides: Sequence[str] = (),
        alignment: AlignmentConfig | None = None,
        apart: Pool | None = None,
    ) -> None:
        self.source = source
        self.registry = Registry(source.tracking_uri, Path(source.cache))
        self._decode = decode
        self._overrides = tuple(overrides)
        self._alignment, self._apart = alignment, apart

    def load(self) -> LoadedModel:
        """Loads the bundle, or the version that the reference names now.

        Raises UserError: no valid bundle, an unknown model in the registry, or a GPU that does not exist.
        """
        return self._load(*find_model(self.source, "translation"))

    def load_version(self, version: ModelVersion) -> LoadedModel:
        """Loads a version of the registry through the cache."""
        return self._load(self.registry.fetch(version), version)

    def _load(self, directory: Path, version: ModelVersion = UNREGISTERED) -> LoadedModel:
        served = load_model(
            directory,
            engine=self.source.engine,
            device=self.source.device,
            threads=self.source.threads,
            version=version,
            section=self._decode,
            overrides=self._overrides,
            alignment=self._alignment,
            apart=self._apart,
        )
        logger.info("%s, version %s, is loaded", served.origin.name, served.origin.version)
        return served


def open_bundle(source: BundleSource) -> TranslationBundle:
    """Loads the bundle itself, for commands that ask the network and do not decode.

    Raises UserError: no valid translation bundle, or an unknown model in the registry.
    """
    directory, version = find_model(source, "translation")
    check_translates(directory, version.name)
    return load_bundle(directory)


def find_model(source: BundleSource, what: str) -> tuple[Path, ModelVersion]:
    """Returns the bundle's directory, and its version if it is from the registry; `what` is the kind for messages.

    Raises UserError: none is named, the registry has no such model, or its GPU does not exist.
    """
    check_device(source)
    if source.bundle is not None:
        return named_folder(source, source.bundle), UNREGISTERED
    if source.model is None:
        raise UserError(
            f"no {what} model is named: set the verb's .bundle to a folder, or its .model to models:/NAME@ALIAS"
        )
    registry = Registry(source.tracking_uri, Path(source.cache))
    version = registry.resolve(source.model)
    return registry.fetch(version), version


def named_folder(source: BundleSource, name: str) -> Path:
    """Returns the folder of a bundle at a place or of a run; that of the place where there is a file of it.

    Raises UserError: nothing has that name; with the runs that have a bundle.
    """
    runs = Path(source.runs)
    folder = find_bundle(name, runs, Path(source.cache)) or bundle_folder(name, source.cache)
    if not folder.exists():
        names = sorted(path.parent.name for path in bundles(runs))
        raise UserError(
            f"{name}: not a bundle's directory, nor a run in {runs} with a bundle. Runs: {', '.join(names) or 'none'}"
        )
    return folder


def open_text_bundle(source: BundleSource, kind: "TextKind") -> "TextBundle":
    """Loads the bundle of a network of one language.

    Raises UserError: no valid bundle of this kind, or an unknown model in the registry.
    """
    from dragoman.model.bundles.language import load_text_bundle  # loads torch

    directory, _ = find_model(source, kind)
    return load_text_bundle(directory, kind)


def check_device(source: BundleSource) -> None:
    """Raises UserError if a GPU is requested and torch sees none."""
    if source.device != "cuda":
        return
    import torch

    if not torch.cuda.is_available():
        raise UserError("the verb's .device is cuda, and torch sees no GPU here; set it to cpu")
