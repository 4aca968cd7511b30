"""Write what is installed to the two locks: what Dragoman needs to run, and what tests and checks need beside it.

    python deploy/lock.py

pyproject.toml names the roots of both; what neither needs is left out, as are pip and a platform's build marks (+cpu).
"""

import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[1]


def needed(roots: Iterable[str]) -> dict[str, str]:
    """Returns what `roots` (requirements) need here, with themselves: canonical name -> `Name==version`."""
    found: dict[str, str] = {}
    waiting = [Requirement(root) for root in roots]
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        try:
            package = distribution(requirement.name)
        except PackageNotFoundError:
            raise SystemExit(f"{requirement} is needed and not installed: pip install it, then make lock") from None
        found[canonicalize_name(requirement.name)] = f"{package.metadata['Name']}=={package.version.partition('+')[0]}"
        for text in package.requires or []:
            further = Requirement(text)
            extras = {"", *requirement.extras}
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(further)
    return found


def roots() -> tuple[list[str], list[str]]:
    """The requirements that pyproject.toml names: to run, to develop."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    return project["project"]["dependencies"], project["dependency-groups"]["dev"]


def main() -> None:
    runtime, development = map(needed, roots())
    locks = {
        "requirements.lock": runtime.values(),
        "requirements-dev.lock": [pin for name, pin in development.items() if name not in {"pip", *runtime}],
    }
    for name, pins in locks.items():
        rows = sorted(pins, key=lambda pin: pin.partition("==")[0].lower())
        (REPOSITORY / name).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
