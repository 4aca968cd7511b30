"""The one way in: a verb's command line becomes a typed configuration and an exit code.

Hydra composes `config.yaml` with the overrides, interpolations are resolved, and each section becomes the dataclass
that the verb's root declares for it. Nothing here knows what a section means.
"""

import contextlib
import copy
import dataclasses
import errno
import hashlib
import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from conf.groups import FOLDER, sections
from conf.interrupts import Interrupted, interruptible
from conf.parsing import parsing_quickly
from model.errors import ServiceError, UserError, interrupt_in, unknown
from model.ranges import all_ranges
from model.renamed import current_words
from model.schema import convert
from model.storage.mirror import local_folder

Root = TypeVar("Root")
Section = TypeVar("Section")
Facts = Callable[[Mapping[str, Any], Sequence[str]], Mapping[str, Any]]

OK, FAILED, USER_MISTAKE, INTERRUPTED = 0, 1, 2, 130  # exit codes
CHATTY = ("alembic", "httpx")  # they log a line for each plugin at import, and for each request
UNUSABLE = {  # errors of the system that starting again does not mend
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP),
    errno.ENAMETOOLONG,
}
logger = logging.getLogger("dragoman")
_rehearsing = ContextVar("rehearsing", default=False)
_composed: ContextVar[dict[tuple[str, ...], Any] | None] = ContextVar("composed", default=None)  # words -> node


def run(
    task: Callable[[Root], int | None],
    root: type[Root],
    argv: Sequence[str],
    verb: str,
    check: Callable[[Root], None] = lambda _: None,
    facts: Facts | None = None,
) -> int:
    """Compose, type and run `task`; the verb's exit code (0 done, 1 failed, 2 the user's mistake, 130 interrupted by
    SIGINT, 143 by SIGTERM; 75 where a training makes room because a node of it goes away).

    `root` is a dataclass of the sections that the verb reads. In a rehearsal `check` is called in place of `task`.
    `facts` gets what was composed and the words of the command line, and gives dotted keys with the values that they
    have in truth. Options (`--help`, `--cfg job`, `--multirun`, `--shell-completion` ...) are Hydra's own.
    """
    task = check if _rehearsing.get() else task
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
    homes: list[str] = []

    def work(values: Mapping[str, Any]) -> int | None:
        homes.extend(home_of(values))
        return task(typed(root, values))

    try:
        with interruptible():
            if any(word.startswith("-") for word in argv):
                _refuse_unknown_options(argv)
                code = _run_by_hydra(work, argv, verb, facts)
                _show_ranges(root, argv)
                return code
            return work(values(argv, facts)) or OK
    except UserError as problem:
        print(f"dragoman {verb}: {problem}", file=sys.stderr)
        return USER_MISTAKE
    except ServiceError as problem:
        print(f"dragoman {verb}: {problem}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt as problem:
        return _ended(verb, problem)
    except BrokenPipeError:
        raise  # the reader of our output has gone; the command line ends without a word
    except OSError as problem:
        if problem.errno == errno.ENOSPC:
            where = f" at {problem.filename}" if problem.filename else ""
            said = f"the disk is full{where}; free some space, then start again: it goes on"
            print(f"dragoman {verb}: {said}", file=sys.stderr)
            return FAILED
        if problem.filename is None:  # of no file: a mistake of ours
            traceback.print_exc()
            return FAILED
        print(f"dragoman {verb}: {problem.filename}: {problem.strerror or problem}{homes_hint(homes)}", file=sys.stderr)
        return USER_MISTAKE if problem.errno in UNUSABLE else FAILED
    except Exception as problem:  # the last line of defence: whatever it was, exit code 1 and the trace shown
        interrupt = interrupt_in(problem)
        if interrupt is not None:
            return _ended(verb, interrupt)
        traceback.print_exc()
        return FAILED


def home_of(values: Mapping[str, Any]) -> list[str]:
    """The home that a configuration names, where it is a folder or is to become one; none where it is in a bucket.

    Raises:
        UserError: it is a file, or lies below one.
    """
    home = str((values.get("paths") or {}).get("root", ""))
    if not home or "://" in home:
        return []
    there = next(place for place in (Path(home).absolute(), *Path(home).absolute().parents) if place.exists())
    if not there.is_dir():
        raise UserError(
            f"paths.root={home}: {there} is a file; name a folder (DRAGOMAN_HOME=FOLDER or paths.root=FOLDER)"
        )
    return [home]


def homes_hint(homes: Sequence[str]) -> str:
    """What to look at where a file cannot be used."""
    return f" (the home is {homes[0]}: it must be a folder that can be written, see paths.root)" if homes else ""


def _ended(verb: str, problem: KeyboardInterrupt) -> int:
    """Say by what the verb was ended; its exit code."""
    interrupted = problem if isinstance(problem, Interrupted) else Interrupted("interrupted", INTERRUPTED)
    print(f"dragoman {verb}: {interrupted}", file=sys.stderr)
    return interrupted.code


def run_section(
    task: Callable[[Section], int | None], name: str, section: type[Section], argv: Sequence[str], verb: str
) -> int:
    """`run` for a verb that reads the one section `name`, which is all that `task` gets."""
    root = dataclasses.make_dataclass("Root", [(name, section)])
    return run(lambda values: task(getattr(values, name)), root, argv, verb)


@contextlib.contextmanager
def rehearsal() -> Iterator[None]:
    """Within the block a verb reads its command line, composes, types and checks its configuration, and ends there."""
    before = _rehearsing.set(True)
    try:
        yield
    finally:
        _rehearsing.reset(before)


@contextlib.contextmanager
def composed_once() -> Iterator[None]:
    """Within the block the same words are composed once; it must not outlive a change of the configuration's files."""
    before = _composed.set({})
    try:
        yield
    finally:
        _composed.reset(before)


def values(overrides: Sequence[str], facts: Facts | None = None) -> dict[str, Any]:
    """The composed and fully resolved configuration as plain values.

    Raises:
        UserError: an override that cannot be parsed, an unknown key or choice, an interpolation that leads nowhere.
    """
    from hydra.errors import HydraException, MissingConfigException
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

    words = current_words(overrides)
    try:
        with parsing_quickly():
            return _resolve(_compose(words), words, facts)
    except MissingConfigException as problem:
        group, _, choice = str(problem.missing_cfg_file).rpartition("/")
        raise unknown(group, choice, problem.options or ()) from None
    except (HydraException, OmegaConfBaseException) as problem:
        cause = problem.__cause__
        if isinstance(cause, ConfigAttributeError | ConfigKeyError) and cause.parent_node is not None:
            section = str(cause.full_key).rpartition(".")[0]
            choices = [key for key in cause.parent_node if key not in ("hydra", "experiment")]
            raise unknown(f"{section}: unknown key" if section else "unknown key", cause.key, choices) from None
        raise UserError(str(problem).strip().splitlines()[0]) from None


def _compose(words: Sequence[str]) -> Any:
    from hydra import compose, initialize_config_dir

    composed = _composed.get()
    key = tuple(words)
    if composed is not None and key in composed:
        return copy.deepcopy(composed[key])
    with initialize_config_dir(config_dir=str(FOLDER), version_base="1.3"):
        node = compose("config", overrides=list(words))
    if composed is not None:
        composed[key] = copy.deepcopy(node)
    return node


def _resolve(node: Any, words: Sequence[str], facts: Facts | None) -> dict[str, Any]:
    """The plain values of a composed node; what is made of keys that `facts` corrects is made anew."""
    from omegaconf import OmegaConf

    # ${local:PLACE,CACHE}: the folder of this machine that a place is, or that stands for an address
    OmegaConf.register_new_resolver("local", lambda place, cache: str(local_folder(place, cache)), replace=True)
    if facts is not None:
        for key, value in facts(OmegaConf.to_container(node, resolve=True), words).items():  # type: ignore[arg-type]
            OmegaConf.update(node, key, value)
    values = {str(key): value for key, value in OmegaConf.to_container(node, resolve=True).items()}  # type: ignore[union-attr]
    values.pop("experiment", None)
    return values


def typed(root: type[Root], values: Mapping[str, Any]) -> Root:
    """The sections that `root` declares, as typed objects; sections of other verbs are left to them."""
    hints = get_type_hints(root, include_extras=True)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(root):  # type: ignore[arg-type]  # Root is a dataclass
        if field.name not in values:
            continue
        found[field.name] = convert(hints[field.name], values[field.name], field.name)
    known = sections()
    for key in values:
        if key not in known:
            raise unknown("unknown key", key, known)
    return root(**found)


def plain(config: object) -> dict[str, Any]:
    """A typed configuration as plain values again, for JSON and for hashing."""
    return dataclasses.asdict(config)  # type: ignore[call-overload,no-any-return]


def fingerprint(values: object) -> str:
    """sha256 (hex) of the canonical JSON of `values`: the same configuration has the same hash everywhere."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _run_by_hydra(
    task: Callable[[dict[str, Any]], int | None], argv: Sequence[str], verb: str, facts: Facts | None
) -> int:
    import hydra
    from omegaconf import DictConfig

    codes: list[int] = []
    words = current_words(argv)

    @hydra.main(config_path=str(FOLDER), config_name="config", version_base="1.3")
    def application(node: DictConfig) -> None:
        codes.append(task(_resolve(node, words, facts)) or OK)

    before = sys.argv
    sys.argv = [f"dragoman {verb}", *words]
    try:
        with parsing_quickly():
            application()
    finally:
        sys.argv = before
    return max(codes, default=OK)


def _show_ranges(root: type[Any], argv: Sequence[str]) -> None:
    """After `--info` and `--info config`: the numbers that each setting may be."""
    from hydra._internal.utils import get_args_parser

    if get_args_parser().parse_known_args(list(argv))[0].info in ("all", "config"):
        print("\nRanges\n******")
        for key, found in all_ranges(root):
            print(f"{key}: {found}")


def _refuse_unknown_options(argv: Sequence[str]) -> None:
    """Whoever writes `--max_steps 10` is told of `train.max_steps=10`.

    Raises:
        UserError: an option that is none of Hydra's.
    """
    from hydra._internal.utils import get_args_parser

    for word in get_args_parser().parse_known_args(list(argv))[1]:
        if not word.startswith("-"):
            continue
        option, equals, value = word.partition("=")
        after = [*argv[argv.index(word) + 1 :], ""][0]
        if not equals and not after.startswith("-") and "=" not in after:
            value = after
        name = option.lstrip("-").replace("-", "_")
        keys = [key for key in _dotted(values([])) if key == name or key.endswith(f".{name}")]
        meant = " or ".join(f"{key}={value or 'VALUE'}" for key in keys)
        raise UserError(f"{option}: no such option; " + (f"write {meant}" if keys else "settings are key=value"))


def _dotted(values: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """Every key of nested sections, as it is overridden."""
    for key, value in values.items():
        yield f"{where}{key}"
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{where}{key}.")
