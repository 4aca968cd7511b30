"""Detects packages that hide Dragoman's own, whose names are common.

Such a package is named here, before it makes an import fail with an unclear error.
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

OURS = ("conf", "model", "pipelines", "services")  # installed beside this package
HOME = Path(__file__).resolve().parent.parent


def check_names() -> None:
    """Refuses a process in which one of the names is another's. The command `dragoman` ends with exit code 2.

    Raises:
        ImportError: names the file that hides ours.
    """
    try:
        _check()
    except ImportError as problem:
        if Path(sys.argv[0]).name != "dragoman":
            raise
        print(problem, file=sys.stderr)
        sys.exit(2)


def _check() -> None:
    for name in OURS:
        found = _place(name)
        if found is not None and found.parent.parent != HOME:
            shown = found.parent if found.name == "__init__.py" else found
            raise ImportError(
                f"dragoman: {shown} hides Dragoman's own package {name!r} ({HOME / name}), because Python finds it "
                f"first; rename it, or start Python where it is not on the path (python -P leaves out the script's "
                f"folder)",
                name=name,
                path=str(shown),
            )


def _place(name: str) -> Path | None:
    """Returns the file that `import name` loads or would load; None if there is none."""
    loaded = sys.modules.get(name)
    try:
        spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(name)
    except ValueError:  # a module without a spec, made by hand
        spec = None
    file = getattr(loaded, "__file__", None) or (spec.origin if spec else None)
    if file is None and spec is not None and spec.submodule_search_locations:  # a folder without __init__.py
        return _name_folder_init(list(spec.submodule_search_locations))
    return Path(file).resolve() if file else None


def _name_folder_init(folders: list[str]) -> Path:
    """Returns the file as if the folder had an __init__.py.

    A folder without code is found only if no other path has the package; an editable installation comes last."""
    return Path(folders[0]).resolve() / "__init__.py"
