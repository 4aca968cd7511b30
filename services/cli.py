"""The command line: `dragoman VERB [key=value ...]`. A verb's module is imported only when the verb is run."""

import importlib
import sys
from collections.abc import Sequence

from conf.endings import BROKEN_PIPE, OK, close_output, end
from conf.interrupts import finish, interruptible
from model.errors import unknown
from services import completion
from services.help import general_help, verb_help
from services.verbs import SHARED_MODULES, VERBS
from services.version import version


def main(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code: 0, 1 failed, 2 the user's mistake, 130 or 143 interrupted."""
    verb = argv[0] if argv and argv[0] in VERBS else ""
    try:
        with interruptible():
            code = _dispatch(list(argv))
            if sys.stdout is not None:  # as after `>&-`
                sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) has gone: say nothing
        close_output()
        return BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as problem:
        try:
            code = end(verb, problem)
        except BrokenPipeError:
            code = BROKEN_PIPE
        if isinstance(problem, OSError):
            close_output()  # what waits for a full disk cannot be written at the end either
    return code


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(general_help(VERBS))
        return OK
    if argv[0] in ("-V", "--version"):
        print(f"dragoman {version()}")
        return OK
    if argv[0] in ("-sc", "--shell-completion"):
        return completion.answer(argv[1:], list(VERBS))
    name, *rest = argv
    if name not in VERBS:
        raise unknown("unknown verb", name, VERBS)
    verb = VERBS[name]
    if any(word in ("-h", "--help") for word in rest):
        print(verb_help(name, verb))
        return OK
    module = importlib.import_module(verb.module)
    code: int = module.main([name, *rest] if verb.module in SHARED_MODULES else rest)
    return code


def entry() -> None:
    """The console script `dragoman`."""
    with interruptible():
        code = main(sys.argv[1:])
    finish(code)
    sys.exit(code)


if __name__ == "__main__":
    entry()
