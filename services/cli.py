"""The command line: `dragoman VERB [key=value ...]`. A command's module is imported only when it runs.

`--config FILE` and `--config-dir FOLDER`, a user's own settings, are read here, so that every command accepts them and
passes them on to the processes and jobs that it starts.
"""

import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from dragoman.conf import compose
from dragoman.conf.again import own_options, remembered
from dragoman.conf.endings import BROKEN_PIPE, OK, close_output, end, run_process
from dragoman.conf.groups import VARIABLE
from dragoman.conf.interrupts import interruptible
from dragoman.conf.own import checked_folder, read_settings
from dragoman.conf.showing import as_json
from dragoman.model.environment import restore_environment
from dragoman.model.errors import UserError
from dragoman.services.from_home import with_home
from dragoman.services.verbs import VERBS, run_verb, take_json


def main(argv: Sequence[str], planned: bool = False) -> int:
    """Runs one command line and returns its exit code: 0, 1 failed, 2 a user's mistake, 69 unavailable, 130 or 143.

    `planned`: a job's, whose words mean what they meant to the planner, whatever the home has by now.
    """
    verb = argv[0] if argv and argv[0] in VERBS else ""
    try:
        with interruptible(), restore_environment(VARIABLE):
            code = _dispatch(list(argv), run_verb if planned else run_at_home)
            if sys.stdout is not None:  # it is None after `>&-`
                sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) has gone: no message
        close_output()
        return BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as problem:
        try:
            code = end(verb, problem)
        except BrokenPipeError:
            code = BROKEN_PIPE
        if isinstance(problem, OSError):
            close_output()  # output that waits for a full disk cannot be written at the end either
    return code


def _dispatch(argv: list[str], run: Callable[[str, Sequence[str]], int]) -> int:
    if argv[:1] == ["help"] and len(argv) > 1:
        argv = [argv[1], "--help"]
    if not argv or argv[0] in ("-h", "--help", "help"):
        from dragoman.services.help import general_help

        print(general_help(VERBS))
        return OK
    if argv[0] in ("-V", "-v", "--version", "version"):
        from dragoman.services.version import version

        print(f"dragoman {version()}")
        return OK
    if argv[0] in ("-sc", "--shell-completion"):
        from dragoman.services import completion

        return completion.answer(argv[1:], VERBS)
    name, *rest = argv
    if name not in VERBS:
        near = "".join(f" Did you mean {verb!r}?" for verb in get_close_matches(name, VERBS, n=1))
        raise UserError(f"unknown verb: {name!r} is not known.{near} `dragoman --help` lists the verbs")
    verb = VERBS[name]
    if any(word in ("-h", "--help", "--help-all") for word in rest):
        from dragoman.services.help import verb_help

        print(verb_help(name, verb, "--help-all" in rest))
        return OK
    with remembered(rest):
        wanted, rest = take_json(name, with_own_settings(rest))
        with as_json(wanted):
            return run(name, rest)


def run_at_home(name: str, words: Sequence[str]) -> int:
    """Runs a verb, with the words of the home's only shards or model; a mistake in its own words comes first."""
    try:
        words = with_home(name, words)
    except UserError:
        with compose.rehearsal(checks=False):
            if code := run_verb(name, words):
                return code
        raise
    return run_verb(name, words)


def with_own_settings(words: Sequence[str]) -> list[str]:
    """Returns the words with the settings of `--config` files before the command line's own, which win.

    `--config-dir` sets the variable DRAGOMAN_CONF, which child processes inherit.
    """
    rest: list[str] = []
    words_read: list[str] = []
    for option, value in own_options(words):
        if not option:
            rest.append(value)
        elif not value:
            raise UserError(f"{option}: say which: --config FILE.yaml, --config-dir FOLDER")
        elif option == "--config":
            words_read += read_settings(value)
        else:
            os.environ[VARIABLE] = str(checked_folder(value))
    settled = {word.partition("=")[0] for word in rest}
    words_read = [word for word in words_read if word.partition("=")[0] not in settled]
    first = next((place for place, word in enumerate(rest) if "=" in word or word.startswith("-")), len(rest))
    return [*rest[:first], *words_read, *rest[first:]]


if __name__ == "__main__":
    run_process(lambda: main(sys.argv[1:]))
