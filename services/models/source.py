"""The model that a service uses: a bundle's directory, or the version that a registry reference names."""

import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.model.bundles.directory import read_facts
from dragoman.model.bundles.download import bundle_folder
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import check_translates
from dragoman.model.runs.bundles import bundles, find_bundle
from dragoman.model.settings import AlignmentConfig, DecodeConfig
from dragoman.services.models.home import Home
from dragoman.services.models.loaded_model import LoadedModel, load_model
from dragoman.services.models.registry import UNREGISTERED, ModelVersion, Registry, is_registered
from dragoman.services.settings import BundleSource, ModelSource
from dragoman.services.subprocesses.pool import Pool

if TYPE_CHECKING:
    from dragoman.model.bundles.language import TextBundle, TextKind

TRANSLATION = ("translation",)
MOST = 8  # models to list
ONLY = "the only champion"
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
        self.registry = Registry(source.home.tracking, Path(source.home.cache))
        self._decode = decode
        self._overrides = tuple(overrides)
        self._alignment, self._apart = alignment, apart

    def load(self) -> LoadedModel:
        """Loads the bundle, or the version that the reference names now."""
        return self._load(*find_model(self.source, *TRANSLATION))

    def load_version(self, version: ModelVersion) -> LoadedModel:
        """Loads a version of the registry through the cache."""
        return self._load(self.registry.fetch(version), version)

    def _load(self, directory: Path, version: ModelVersion = UNREGISTERED) -> LoadedModel:
        served = load_model(
            directory,
            engine=self.source.engine,
            device=self.source.home.device,
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
    """Loads the bundle itself, for commands that ask the network and do not decode."""
    directory, version = find_model(source, *TRANSLATION)
    check_translates(directory, version.name)
    return load_bundle(directory)


def find_model(source: BundleSource, *kinds: str) -> tuple[Path, ModelVersion]:
    """Returns the bundle's directory, and its version if it is from the registry; where none is named, those of the
    home's only model of these kinds (none: any).
    """
    check_device(source.home)
    name = source.bundle
    if name is None:
        name = only_model(source.home, kinds)
        print(f"the only model in {source.home.runs} and the registry: {name}", file=sys.stderr)
    if not is_registered(name):
        return named_folder(source, name), UNREGISTERED
    registry = Registry(source.home.tracking, Path(source.home.cache))
    version = registry.resolve(name)
    return registry.fetch(version), version


def only_model(home: Home, kinds: Sequence[str]) -> str:
    """Returns the home's only champion of these kinds as `models:/NAME@champion`, else its only run with a bundle."""
    names = [f"models:/{name}@champion" for name in champions(home, kinds)]
    names = names or runs_of(Path(home.runs), kinds)
    what = f"{' or '.join(kinds)} model".lstrip()
    if not names:
        by_demo = " (`dragoman demo` does in minutes)" if set(kinds) & {*TRANSLATION} else ""
        raise UserError(
            f"no {what} in {home.runs} nor in the registry: train one{by_demo}, or name one with bundle=FOLDER or "
            "bundle=models:/NAME@ALIAS"
        )
    if len(names) > 1:
        raise UserError(
            f"several {what}s: {', '.join(names[:MOST])}{' ...' if len(names) > MOST else ''}; name one with "
            "bundle=models:/NAME@ALIAS or bundle=RUN"
        )
    return names[0]


class OnlyChampion:
    """The home's only translation champion, for an endpoint that starts before there is one."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._registry = Registry(home.tracking, Path(home.cache))
        self._reference: str | None = None

    def resolve(self, _: str) -> ModelVersion:
        """Returns its version; the first model that is found is followed from then on."""
        if self._reference is None:
            names = champions(self._home, TRANSLATION)
            if len(names) != 1:
                raise UserError(f"{len(names)} translation models have a champion: {', '.join(names[:MOST]) or 'none'}")
            self._reference = f"models:/{names[0]}@champion"
        return self._registry.resolve(self._reference)


def runs_of(runs: Path, kinds: Sequence[str]) -> list[str]:
    """Returns the names of the runs, those of owners' jobs included, that have a bundle of these kinds."""
    names = []
    for bundle in [path for folder in (runs, *sorted(runs.glob("*/"))) for path in sorted(bundles(folder))]:
        with contextlib.suppress(UserError):  # damaged: who names it is told
            if not kinds or read_facts(bundle).get("kind", TRANSLATION[0]) in kinds:
                names.append(str(bundle.parent.relative_to(runs)))
    return names


def champions(home: Home, kinds: Sequence[str]) -> list[str]:
    """Returns the names of the registered models of these kinds, of the home's owner if it has one, with a champion."""
    if home.tracking.startswith("sqlite:///") and not Path(home.tracking.removeprefix("sqlite:///")).is_file():
        return []
    registry = Registry(home.tracking, Path(home.cache))
    with registry.asking():
        named = {version for version, aliases in registry.aliases().items() if "champion" in aliases}
    return sorted(
        version.name
        for version in (registry.list_versions() if named else ())
        if (version.name, str(version.version)) in named
        and (home.owner is None or version.name.startswith(f"{home.owner}."))
        and (not kinds or version.tags.get("bundle_kind", TRANSLATION[0]) in kinds)
    )


def named_folder(source: BundleSource, name: str) -> Path:
    """Returns the folder of a bundle at a place or of a run; that of the place where there is a file of it."""
    runs = Path(source.home.runs)
    folder = find_bundle(name, runs, Path(source.home.cache)) or bundle_folder(name, source.home.cache)
    if not folder.exists():
        names = sorted(path.parent.name for path in bundles(runs))
        raise UserError(
            f"{name}: not a bundle's directory, nor a run in {runs} with a bundle. Runs: {', '.join(names) or 'none'}"
        )
    return folder


def open_text_bundle(source: BundleSource, kind: "TextKind") -> "TextBundle":
    """Loads the bundle of a network of one language."""
    from dragoman.model.bundles.language import load_text_bundle  # loads torch

    directory, _ = find_model(source, kind)
    return load_text_bundle(directory, kind)


def check_device(home: Home) -> None:
    """Raises UserError if a GPU is requested and torch sees none."""
    if home.device != "cuda":
        return
    import torch

    if not torch.cuda.is_available():
        raise UserError("device=cuda: torch sees no GPU here; set it to cpu")
