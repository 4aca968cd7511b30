"""The only entrance: turns a command line into a typed configuration and an exit code.

Hydra composes the command's root, a file of this folder, with the overrides; interpolations are resolved, and each
section becomes the dataclass that the root's own dataclass declares for it. Nothing here knows what a section means.
"""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints

from dragoman.conf import endings
from dragoman.conf.endings import end
from dragoman.conf.groups import FOLDER, RECIPE, sections
from dragoman.conf.interrupts import interruptible
from dragoman.conf.options import Options, read_options
from dragoman.conf.own import search_path
from dragoman.conf.words import chosen_keys, json_map, keep_text, quote_plain, refuse_hydras, refuse_unfitting
from dragoman.model.errors import UserError
from dragoman.model.schema import convert
from dragoman.model.storage.places import local_folder

Root = TypeVar("Root")
Tree = dict[str, Any]
# (the values as settled so far, the keys that the user chose) -> dotted keys with the values that follow from the data
Settle = Callable[[Callable[[], Tree], Set[str]], Iterable[Mapping[str, Any]]]

OK, FAILED, USER_MISTAKE = endings.OK, endings.FAILED, endings.USER_MISTAKE
CHATTY = ("alembic", "httpx", "matplotlib")  # they log a line per plugin or font at import, or per request
_turn = threading.RLock()  # Hydra's state is per process
_rehearsing: ContextVar[Literal["no", "composing", "checking"]] = ContextVar("rehearsing", default="no")
_rehearsed: ContextVar[dict[str, Any]] = ContextVar("rehearsed")  # the configuration of the rehearsed command


def run(
    task: Callable[[Root], int | None],
    root: type[Root],
    argv: Sequence[str],
    verb: str,
    check: Callable[[Root], int | None] = lambda _: None,
    settle: Settle | None = None,
    shown: Sequence[str] | None = None,
) -> int:
    """Composes, types and runs `task`; returns the exit code (0 done, 1 failed, 2 the user's mistake, 130 interrupted
    by SIGINT, 143 by SIGTERM; 75 if a training makes room because one of its nodes goes away).

    `root` is a dataclass of the sections that the command reads. In a rehearsal `check` is called instead of `task`.
    `settle` yields dotted keys with the values that follow from the data, where the user chose none. `shown`
    are what `--cfg job` prints, by default all sections of `root`. `conf/options.py` has the options.
    """
    task = {"no": task, "composing": lambda _: None, "checking": check}[_rehearsing.get()]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)

    def once(words: Sequence[str]) -> int:
        homes: list[str] = []
        try:
            try:
                composed = values(words, root, settle)
            except (AttributeError, KeyError, TypeError):  # `settle` reads values whose types are checked only now
                typed(root, values(words, root))
                raise
            homes.extend(home_of(composed))
            if is_rehearsal():
                _rehearsed.get().update(composed)
            return task(typed(root, composed)) or OK
        except Exception as problem:
            hint = (
                f" (the home is {homes[0]}: it must be a folder that can be written, see paths.root)" if homes else ""
            )
            return end(verb, problem, hint)

    try:
        with interruptible():
            if not any(word.startswith("-") for word in argv):
                return once(argv)
            options = read_options(argv, partial(_misspelt_option, file_of(root)))
            if options.cfg is not None:
                note = f"# As written; where nobody chose, `dragoman {verb}` takes what fits the corpus, and says it.\n"
                return _show(options, root, shown, note if settle else "")
            return once(options.overrides)
    except (Exception, KeyboardInterrupt) as problem:
        return end(verb, problem)


def home_of(values: Mapping[str, Any]) -> list[str]:
    """Returns the home that a configuration names, if it is a folder or will become one; empty for a bucket.

    Raises UserError: it is a file or lies below one, or a path is empty.
    """
    paths = values.get("paths") or {}
    for key, value in paths.items():
        if value == "":
            raise UserError(f"paths.{key} is empty; name a folder, or leave it out")
    home = str(paths.get("root") or "")
    if not home or "://" in home:
        return []
    there = next(place for place in (Path(home).absolute(), *Path(home).absolute().parents) if place.exists())
    if not there.is_dir():
        raise UserError(
            f"paths.root={home}: {there} is a file; name a folder (DRAGOMAN_HOME=FOLDER or paths.root=FOLDER)"
        )
    return [home]


@contextlib.contextmanager
def rehearsal(checks: bool = True) -> Iterator[dict[str, Any]]:
    """Within the block a command reads its command line, composes, types and `checks` its configuration, then stops.

    Yields the configuration, empty until then."""
    before, whole = _rehearsing.set("checking" if checks else "composing"), _rehearsed.set({})
    try:
        yield _rehearsed.get()
    finally:
        _rehearsing.reset(before)
        _rehearsed.reset(whole)


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Composes within the block in another program's process: puts its Hydra aside, and lets threads take turns."""
    from hydra.core.global_hydra import GlobalHydra

    with _turn:
        before, GlobalHydra.instance().hydra = GlobalHydra.instance().hydra, None
        try:
            yield
        finally:
            GlobalHydra.instance().hydra = before  # another instance: Hydra has put a copy there


def is_rehearsal() -> bool:
    """Returns True within `rehearsal`: the command may be meant for another machine."""
    return _rehearsing.get() != "no"


def values(words: Sequence[str], root: type[Any] | str = RECIPE, settle: Settle | None = None) -> Tree:
    """Returns the composed and fully resolved configuration as plain values.

    `root` is a dataclass, or the name of a root's file.

    Raises UserError: an override cannot be parsed, a key or choice is unknown, or an interpolation leads nowhere.
    """
    with _in_our_words(words, file_of(root)):
        node = _compose(words, root)
        for changes in settle(lambda: _resolve(node), chosen_keys(words)) if settle else ():
            _put(node, changes)
        return _resolve(node)


@contextlib.contextmanager
def _in_our_words(words: Sequence[str], file: str) -> Iterator[None]:
    """Turns errors of Hydra and OmegaConf within the block into mistakes in `words`, of the root `file`."""
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        from dragoman.conf.mistakes import refusal  # needed for a mistake alone

        mistake = refusal(problem, words, file)
        if mistake is None:
            raise
        raise mistake from None


def file_of(root: type[Any] | str) -> str:
    """Returns the name of a root's file; a dataclass without FILE has that of the verbs up to a champion."""
    return root if isinstance(root, str) else getattr(root, "FILE", RECIPE)


def _compose(words: Sequence[str], root: type[Any] | str) -> Any:
    """Returns the node that Hydra composes, with interpolations as written."""
    from hydra import compose, initialize_config_dir

    file = file_of(root)
    refuse_hydras(words)
    refuse_unfitting(words)
    maps = {key: value for key, value in (json_map(word, file) for word in words) if value is not None}
    words = [word for word in words if word.partition("=")[0] not in maps]
    if not isinstance(root, str):
        words = [keep_text(word, root) for word in words]
    with initialize_config_dir(config_dir=str(FOLDER), version_base="1.3"):
        node = compose(file, overrides=[*search_path(), *quote_plain(words)])
    _put(node, maps)
    return node


def _put(node: Any, changes: Mapping[str, Any]) -> None:
    from omegaconf import OmegaConf

    for key, value in changes.items():
        OmegaConf.update(node, key, value, merge=False, force_add=True)


def _resolve(node: Any) -> Tree:
    from omegaconf import OmegaConf

    for name, function in FUNCTIONS.items():
        OmegaConf.register_new_resolver(name, function, replace=True)
    resolved: Tree = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)  # type: ignore[assignment]
    return resolved


# The functions of the configuration's files, as in `${local:PLACE,CACHE}`.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    # the folder of this machine that a place is, or that mirrors an address
    "local": lambda place, cache: str(local_folder(place, cache)),
    # a variable of the environment; an empty one, as compose files and CI write it, counts as unset
    "variable": lambda name, other: os.environ.get(name) or other,
    # a text between two others; nothing at all if it is null
    "given": lambda before, text, after: "" if text is None else f"{before}{text}{after}",
}


def typed(root: type[Root], values: Mapping[str, Any]) -> Root:
    """Returns the sections that `root` declares, as typed objects; others of its file are skipped."""
    hints = get_type_hints(root, include_extras=True)
    sections_typed: dict[str, Any] = {}
    for field in dataclasses.fields(root):  # type: ignore[arg-type]  # Root is a dataclass
        if field.name in values:
            sections_typed[field.name] = convert(hints[field.name], values[field.name], field.name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise UserError(f"~{field.name}: the section cannot be left out")
    schema = sections(file_of(root))
    for key in values:
        if key not in schema:
            from dragoman.conf.mistakes import unknown_key  # needed for a mistake alone

            raise unknown_key(key, schema, file=file_of(root))
    return root(**sections_typed)


def plain(config: object) -> dict[str, Any]:
    """Returns a typed configuration as plain values, for JSON, YAML and hashing."""
    return dataclasses.asdict(config)  # type: ignore[call-overload,no-any-return]


def fingerprint(values: object) -> str:
    """Returns the sha256 (hex) of the canonical JSON of `values`: equal configurations have equal hashes everywhere."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _misspelt_option(file: str, option: str, value: str) -> str:
    from dragoman.conf.mistakes import misspelt_option  # needed for a mistake alone

    return misspelt_option(file, option, value)


def _show(options: Options, root: type[Any], sections_read: Sequence[str] | None, note: str) -> int:
    """Prints `note` and the sections that are read, by default those of `root`, after checking all types."""
    from omegaconf import OmegaConf

    words = options.overrides
    with _in_our_words(words, file_of(root)):
        node = _compose(words, root)
        resolved = _resolve(node)
        typed(root, resolved)
        shown = OmegaConf.create(resolved) if options.resolve else node
        read = [name for name in sections_read or root.__dataclass_fields__ if name in node]
        text = OmegaConf.to_yaml(OmegaConf.masked_copy(shown, read))
    print(f"{note}{text}", end="")
    return OK
