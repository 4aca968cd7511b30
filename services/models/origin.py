"""The origin of an answer: the model version, the run and the shards, for /status and every answer's headers."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dragoman.model.bundles.directory import Bundle
from dragoman.services.models.registry import ModelVersion


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
