"""The one way in: a verb's command line becomes a typed configuration and an exit code.

Hydra composes `config.yaml` with the overrides, interpolations are resolved, and each section becomes the dataclass
that the verb's root declares for it. Nothing here knows what a section means.
"""

import contextlib
import dataclasses
import errno
import hashlib
import json
import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from model.errors import ServiceError, UserError, unknown
from model.schema import convert

Root = TypeVar("Root")
Facts = Callable[[Mapping[str, Any], Sequence[str]], Mapping[str, Any]]

FOLDER = Path(__file__).resolve().parent
OK, FAILED, USER_MISTAKE, INTERRUPTED = 0, 1, 2, 130  # exit codes
logger = logging.getLogger("dragoman")
_rehearsing = ContextVar("rehearsing", default=False)


class Interrupted(KeyboardInterrupt):
    """Ended by a signal, in order: the message says what was kept, `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def run(
    task: Callable[[Root], int | None],
    root: type[Root],
    argv: Sequence[str],
    verb: str,
    check: Callable[[Root], None] = lambda _: None,
    facts: Facts | None = None,
) -> int:
    """Compose, type and run `task`; the verb's exit code (0 done, 1 failed, 2 the user's mistake, 130 or 143
    interrupted by SIGINT or SIGTERM).

    `root` is a dataclass of the sections that the verb reads. In a rehearsal `check` is called in place of `task`.
    `facts` gets what was composed and the words of the command line, and gives dotted keys with the values that they
    have in truth. Options (`--help`, `--cfg job`, `--multirun`, `--shell-completion` ...) are Hydra's own.
    """
    task = check if _rehearsing.get() else task
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        if any(word.startswith("-") for word in argv):
            _refuse_unknown_options(argv)
            return _run_by_hydra(lambda values: task(typed(root, values)), argv, verb, facts)
        return task(typed(root, values(argv, facts))) or OK
    except UserError as problem:
        print(f"dragoman {verb}: {problem}", file=sys.stderr)
        return USER_MISTAKE
    except ServiceError as problem:
        print(f"dragoman {verb}: {problem}", file=sys.stderr)
        return FAILED
    except Interrupted as problem:
        print(f"dragoman {verb}: {problem}", file=sys.stderr)
        return problem.code
    except KeyboardInterrupt:
        print(f"dragoman {verb}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        raise  # the reader of our output has gone; the command line ends without a word
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            traceback.print_exc()
            return FAILED
        where = f" at {problem.filename}" if problem.filename else ""
        print(
            f"dragoman {verb}: the disk is full{where}; free some space, then start again: it goes on", file=sys.stderr
        )
        return FAILED
    except Exception:  # the last line of defence: whatever it was, the exit code must be 1 and the trace shown
        traceback.print_exc()
        return FAILED


@contextlib.contextmanager
def rehearsal() -> Iterator[None]:
    """Within the block a verb reads its command line, composes, types and checks its configuration, and ends there."""
    before = _rehearsing.set(True)
    try:
        yield
    finally:
        _rehearsing.reset(before)


def values(overrides: Sequence[str], facts: Facts | None = None) -> dict[str, Any]:
    """The composed and fully resolved configuration as plain values.

    Raises:
        UserError: an override that cannot be parsed, an unknown key or choice, an interpolation that leads nowhere.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    with initialize_config_dir(config_dir=str(FOLDER), version_base="1.3"):
        try:
            node = hydra_compose("config", overrides=list(overrides))
            values = _resolved(node, overrides, facts)
        except (HydraException, OmegaConfBaseException) as problem:
            message = str(problem).strip()
            unmatched = re.match(r"Could not override '([^']+)'", message)
            if unmatched:
                defaults = OmegaConf.to_container(hydra_compose("config"), resolve=False)
                raise _unknown_key(unmatched.group(1), defaults) from None
            raise UserError(message.splitlines()[0] + _choices(message)) from None
    return values


def _resolved(node: Any, words: Sequence[str], facts: Facts | None) -> dict[str, Any]:
    """The plain values of a composed node; what is made of keys that `facts` corrects is made anew."""
    from omegaconf import OmegaConf

    if facts is not None:
        for key, value in facts(OmegaConf.to_container(node, resolve=True), words).items():  # type: ignore[arg-type]
            OmegaConf.update(node, key, value)
    values = {str(key): value for key, value in OmegaConf.to_container(node, resolve=True).items()}  # type: ignore[union-attr]
    values.pop("experiment", None)
    return values


def typed(root: type[Root], values: Mapping[str, Any]) -> Root:
    """The sections that `root` declares, as typed objects; sections of other verbs are left to them."""
    hints = get_type_hints(root)
    sections: dict[str, Any] = {}
    for field in dataclasses.fields(root):  # type: ignore[arg-type]  # Root is a dataclass
        if field.name not in values:
            continue
        sections[field.name] = convert(hints[field.name], values[field.name], field.name)
    known = compose_keys()
    for key in values:
        if key not in known:
            raise unknown("unknown key", key, known)
    return root(**sections)


def compose_keys() -> set[str]:
    """The top-level keys of config.yaml."""
    import yaml

    content = yaml.safe_load((FOLDER / "config.yaml").read_text(encoding="utf-8"))
    groups = {name for entry in content["defaults"] if isinstance(entry, dict) for name in entry}
    return (groups | set(content)) - {"defaults", "hydra", "experiment"}


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

    @hydra.main(config_path=str(FOLDER), config_name="config", version_base="1.3")
    def application(node: DictConfig) -> None:
        codes.append(task(_resolved(node, argv, facts)) or OK)

    before = sys.argv
    sys.argv = [f"dragoman {verb}", *argv]
    try:
        application()
    finally:
        sys.argv = before
    return max(codes, default=OK)


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


def _unknown_key(key: str, defaults: Any) -> UserError:
    """Name the deepest section that exists and what it holds."""
    section, walked = defaults, list[str]()
    for part in key.split("."):
        if not isinstance(section, dict) or part not in section:
            where = ".".join(walked)
            keys = section if isinstance(section, dict) else []
            return unknown(f"{where}: unknown key" if where else "unknown key", part, keys)
        walked.append(part)
        section = section[part]
    return UserError(f"{key}: cannot be overridden")


def _choices(message: str) -> str:
    """Hydra lists the options of a group a line each; ours stand in one."""
    options = re.findall(r"^\t(\S+)$", message, flags=re.MULTILINE)
    return f" Choices: {', '.join(options)}" if options else ""
