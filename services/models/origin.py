"""Where an answer is from: the model version, the run and the shards, as /status and every answer's headers say it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from model.bundles.directory import Bundle
from services.models.registry import ModelVersion


@dataclass(frozen=True)
class Origin:
    """What a loaded model was made of, and when it was loaded."""

    name: str  # the registered model's, or the run's, or the bundle directory's
    version: str  # the registered version, or the first 12 digits of the bundle's sha256
    run_id: str
    manifest_hash: str  # of the shards that it was trained on
    loaded: float = field(default_factory=time.time)  # seconds since the epoch

    @classmethod
    def of(cls, bundle: Bundle, version: ModelVersion) -> "Origin":
        """Name, version and run are the registry's where the bundle came from there, else the bundle's own."""
        run: Mapping[str, Any] = bundle.facts.get("run") or {}
        return cls(
            name=version.name or str(run.get("name") or bundle.directory.resolve().name),
            version=version.version or bundle.digest[:12],
            run_id=version.run_id or str(run.get("id") or ""),
            manifest_hash=str(bundle.facts.get("manifest_hash") or ""),
        )

    def headers(self) -> dict[str, str]:
        """An answer's headers that say where it is from."""
        facts = {
            "X-Model-Name": self.name,
            "X-Model-Version": self.version,
            "X-Run-Id": self.run_id,
            "X-Manifest-Hash": self.manifest_hash,
        }
        return {key: _header(value) for key, value in facts.items() if value}

    def facts(self) -> dict[str, Any]:
        """The same for /status."""
        return {
            "name": self.name,
            "version": self.version,
            "run_id": self.run_id,
            "manifest_hash": self.manifest_hash,
            "loaded": self.loaded,
        }


def _header(value: str) -> str:
    """`value` as it may stand in an HTTP header."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in value)
