"""Finds the bundle of a version of a registered model."""

from dataclasses import replace
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.names import check_name
from dragoman.pipelines.tracking.registry import Registry
from dragoman.pipelines.tracking.settings import RegistryConfig, TrackingConfig


def locate_version(
    place: str, key: str, runs: Path, cache: Path, tracking: TrackingConfig, registry: RegistryConfig
) -> Path:
    """Returns the bundle directory of a registered version, MODEL@ALIAS or MODEL/VERSION, downloaded if needed.

    Args:
        key: the setting, for the message.
        runs: the folder of the runs, for the message.
        cache: the folder of downloaded versions.

    Raises UserError: nothing has that name; says where it was searched.
    """
    reference = place.removeprefix("models:/")
    for separator in ("@", "/"):
        name, at_sign, version = reference.partition(separator)
        if at_sign and name and version and (separator == "@" or version.isdigit()):
            check_name(key, name)
            alias = version if separator == "@" else "champion"
            store = Registry(tracking, replace(registry, name=name, alias=alias))
            registered = store.champion() if separator == "@" else store.version(version)
            if registered is None:
                raise UserError(
                    f"{key}: the registered model {name!r} has no version with the alias {version!r}; "
                    f"`dragoman promote registry.name={name} registry.alias={version}` gives it to the better one"
                )
            return store.bundle(registered, cache / name / registered.number)
    raise UserError(
        f"{key}: {place!r} is neither a bundle's directory nor a run in {runs}. "
        f"Choices: a path, a run's name, MODEL@ALIAS or MODEL/VERSION of the registry"
    )
