"""The only entrance: turns a command line into a typed configuration and an exit code.

`usual.py` or, for unusual words, Hydra composes `config.yaml` with the overrides, interpolations are resolved, and each
section becomes the dataclass that the command's root declares for it. Nothing here knows what a section means.
"""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints

from dragoman.conf import endings, usual
from dragoman.conf.again import remembered
from dragoman.conf.endings import end
from dragoman.conf.groups import FOLDER, sections
from dragoman.conf.interrupts import interruptible
from dragoman.conf.mistakes import (
    misspelt_option,
    quote_plain,
    refusal,
    refuse_hydras,
    refuse_unfitting,
    suggesting_of,
    unknown_key,
)
from dragoman.conf.options import Options, each_run, read_options
from dragoman.conf.own import json_map, search_path
from dragoman.model.errors import UserError, unknown
from dragoman.model.schema import convert, flat
from dragoman.model.storage.places import local_folder

Root = TypeVar("Root")
Section = TypeVar("Section")
Tree = dict[str, Any]
# (the values as settled so far, the words of the command line) -> dotted keys with the values that follow from the data
Settle = Callable[[Callable[[], Tree], Sequence[str]], Iterable[Mapping[str, Any]]]
Resolve = Callable[[Tree], Tree]

OK, FAILED, USER_MISTAKE = endings.OK, endings.FAILED, endings.USER_MISTAKE
CHATTY = ("alembic", "httpx")  # they log a line per plugin at import, or per request
logger = logging.getLogger("dragoman")
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
                composed = values(words, settle)
            except (AttributeError, KeyError, TypeError):  # `settle` reads values whose types are checked only now
                typed(root, values(words))
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
        with interruptible(), suggesting_of(field.name for field in dataclasses.fields(root)):  # type: ignore[arg-type]
            if not any(word.startswith("-") for word in argv):
                return once(argv)
            options = read_options(argv, misspelt_option)
            if options.cfg is not None:
                note = f"# As written; where nobody chose, `dragoman {verb}` takes what fits the corpus, and says it.\n"
                return _show(options, root, shown, note if settle else "")
            if not options.multirun:
                return once(options.overrides)
            codes = []
            with _in_our_words(options.overrides):
                runs = each_run(options.overrides)
            for words in runs:  # a mistake in one of them is reported before the first begins
                typed(root, values(words, settle))
            for number, words in enumerate(runs, 1):
                logger.info("run %d of %d: %s", number, len(runs), shlex.join(words))
                with remembered(words):
                    codes.append(once(words))
            return max(codes, default=OK)
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


def run_section(
    task: Callable[[Section], int | None], name: str, section: type[Section], argv: Sequence[str], verb: str
) -> int:
    """Like `run`, for a command that reads the one section `name`, which is all that `task` gets."""
    root = dataclasses.make_dataclass("Root", [(name, section)])
    return run(lambda values: task(getattr(values, name)), root, argv, verb)


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


def is_rehearsal() -> bool:
    """Returns True within `rehearsal`: the command may be meant for another machine."""
    return _rehearsing.get() != "no"


def values(overrides: Sequence[str], settle: Settle | None = None) -> dict[str, Any]:
    """Returns the composed and fully resolved configuration as plain values.

    Raises UserError: an override cannot be parsed, a key or choice is unknown, or an interpolation leads nowhere.
    """
    with _in_our_words(overrides):
        tree, resolve = _compose(overrides)
        for changes in settle(lambda: resolve(tree), overrides) if settle else ():
            for key, value in changes.items():  # what is made of a settled key is computed again
                usual.put(tree, key, value)
        resolved = resolve(tree)
    resolved.pop("experiment", None)
    return resolved


@contextlib.contextmanager
def _in_our_words(words: Sequence[str]) -> Iterator[None]:
    """Turns errors of Hydra and OmegaConf within the block into the user's mistakes in `words`."""
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        mistake = refusal(problem, words)
        if mistake is None:
            raise
        raise mistake from None


def _compose(words: Sequence[str]) -> tuple[Tree, Resolve]:
    """Returns the composed values, with interpolations as written, and the function that resolves them."""
    refuse_hydras(words)
    refuse_unfitting(words)
    maps = {key: value for key, value in map(json_map, words) if value is not None}
    words = [word for word in words if word.partition("=")[0] not in maps]
    resolve: Resolve = partial(usual.resolve, functions=FUNCTIONS)
    try:
        tree = usual.compose(words)
    except usual.UnusualError:
        tree, resolve = _compose_by_hydra(words), _resolve_by_omegaconf
        maps |= usual.written_numbers(words)
    for key, value in maps.items():
        usual.put(tree, key, value)
    return tree, resolve


def _compose_by_hydra(words: Sequence[str]) -> Tree:
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(config_dir=str(FOLDER), version_base="1.3"):
        node = compose("config", overrides=[*search_path(), *quote_plain(words)])
    return OmegaConf.to_container(node)  # type: ignore[return-value]  # a mapping, as config.yaml is


def _resolve_by_omegaconf(tree: Tree) -> Tree:
    from omegaconf import OmegaConf

    for name, function in FUNCTIONS.items():
        OmegaConf.register_new_resolver(name, function, replace=True)
    node = OmegaConf.create(_as_typed(tree, None))  # which cannot hold a number that remembers its text
    resolved: Tree = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)  # type: ignore[assignment]
    for key, value in flat(tree):
        if isinstance(value, usual.WrittenInt | usual.WrittenFloat):
            usual.put(resolved, key, value)
    return resolved


def _local(place: str, cache: str) -> str:
    """Returns the folder of this machine that a place is, or that mirrors an address."""
    return str(local_folder(place, cache))


def _variable(name: str, other: str | None) -> str | None:
    """Returns a variable of the environment; an empty one, as compose files and CI write it, counts as unset."""
    return os.environ.get(name) or other


def _given(before: str, text: object, after: str) -> str:
    """Returns a text between two others; nothing at all if it is null."""
    return "" if text is None else f"{before}{text}{after}"


# The functions of the configuration's files: `${local:PLACE,CACHE}`, `${variable:NAME,DEFAULT}` and
# `${given:BEFORE,TEXT,AFTER}`.
FUNCTIONS: dict[str, Callable[..., Any]] = {"local": _local, "variable": _variable, "given": _given}


def typed(root: type[Root], values: Mapping[str, Any]) -> Root:
    """Returns the sections that `root` declares, as typed objects; sections of other commands are skipped."""
    hints = get_type_hints(root, include_extras=True)
    sections_typed: dict[str, Any] = {}
    for field in dataclasses.fields(root):  # type: ignore[arg-type]  # Root is a dataclass
        if field.name in values:
            sections_typed[field.name] = convert(hints[field.name], values[field.name], field.name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise UserError(f"~{field.name}: the section cannot be left out")
    schema = sections()
    for key in values:
        if key not in schema:
            raise unknown_key(key, schema)
    return root(**sections_typed)


def plain(config: object) -> dict[str, Any]:
    """Returns a typed configuration as plain values, for JSON, YAML and hashing; no number keeps its typed text."""
    return _as_typed(dataclasses.asdict(config), None)  # type: ignore[call-overload,no-any-return]


def fingerprint(values: object) -> str:
    """Returns the sha256 (hex) of the canonical JSON of `values`: equal configurations have equal hashes everywhere."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _show(options: Options, root: type[Any], sections_read: Sequence[str] | None, note: str) -> int:
    """Prints `note` and the sections that are read (by default those of `root`) or `--package`, after checking all
    types."""
    from omegaconf import OmegaConf

    words, package = options.overrides, options.package
    config = typed(root, values(words))
    with _in_our_words(words):
        tree, resolve = _compose(words)
        node = OmegaConf.create(_as_typed(resolve(tree) if options.resolve else tree, config))
        read = [name for name in sections_read or root.__dataclass_fields__ if name in tree]
        section = OmegaConf.masked_copy(node, read) if package is None else OmegaConf.select(node, package)
        if section is None:
            raise unknown("--package", package, sections())
        text = OmegaConf.to_yaml(section) if OmegaConf.is_config(section) else f"{section}\n"
    print(f"{note}{text}" if package is None else f"# @package {package}\n{text}", end="")
    return OK


def _as_typed(node: Any, config: Any) -> Any:
    """Returns composed values with each number that remembers its text as what the typed `config` makes of it."""
    if isinstance(node, dict):
        return {key: _as_typed(value, getattr(config, key, None)) for key, value in node.items()}
    if isinstance(node, list):
        return [_as_typed(item, None) for item in node]
    if isinstance(node, usual.WrittenInt | usual.WrittenFloat):
        return config if isinstance(config, str) else usual.plain_number(node)
    return node
