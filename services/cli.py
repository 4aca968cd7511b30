"""The command line: `dragoman VERB [key=value ...]`. A verb's module is imported only when the verb is run."""

import importlib
import os
import sys
from collections.abc import Sequence

from conf.interrupts import Interrupted, finish, interruptible
from model.errors import UserError, unknown
from services import completion
from services.help import general_help, verb_help
from services.verbs import SHARED_MODULES, VERBS
from services.version import version

OK, FAILED, USER_MISTAKE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141  # exit codes


def main(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code: 0, 1 failed, 2 the user's mistake, 130 or 143 interrupted."""
    try:
        with interruptible():
            code = _dispatch(list(argv))
            sys.stdout.flush()
    except UserError as problem:
        print(f"dragoman: {problem}", file=sys.stderr)
        return USER_MISTAKE
    except KeyboardInterrupt as problem:
        print("dragoman: interrupted", file=sys.stderr)
        return problem.code if isinstance(problem, Interrupted) else INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone: say nothing, and let the interpreter's last flush write to nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
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
