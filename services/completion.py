"""Shell completion: completes commands and the values of enumerations; Hydra completes the keys and the groups.

The shells hand over the line so far in COMP_LINE. Install with `eval "$(dragoman --shell-completion install=bash)"`.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dragoman.conf import compose
from dragoman.model.errors import UserError, unknown
from dragoman.services.choices import choices
from dragoman.services.verbs import TEXT_FIRST

# `=` does not split words here: a key and its value are one word. A complete command gets a blank after it, a key not.
BASH = r"""_dragoman() {
    local line=${COMP_LINE:0:COMP_POINT} word choices
    word=${line##* }
    choices=$(COMP_LINE=$line COMP_POINT=$COMP_POINT dragoman --shell-completion query=bash 2>/dev/null)
    COMPREPLY=($(compgen -o default -W "$choices" -- "$word"))
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} != *[=./] ]]; then compopt +o nospace 2>/dev/null; fi
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//=}
complete -o nospace -o default -F _dragoman dragoman"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + BASH
FISH = """function __dragoman_complete
    set -lx COMP_LINE (commandline -cp)
    dragoman --shell-completion query=fish 2>/dev/null
end
complete -c dragoman -f -a '(__dragoman_complete)'"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
REMOVALS = {"bash": "complete -r dragoman", "zsh": "complete -r dragoman", "fish": "complete -c dragoman -e"}
VERB_FIRST = {"submit"}  # commands whose first word is another command
OF_A_JOB = {"job", "why", "logs", "stop", "yield", "retry", "priority", "rm", "report"}
# Commands that take words without a key.
WORDS_FIRST = {
    *TEXT_FIRST,
    "inspect",
    "neighbours",
    "analogy",
    "export",
    "vectors",
    "keys",
    "memory",
    "bill",
    "quota",
    "owner",
    "token",
    "tokens",
    "schedules",
    "retention",
    "backup",
    "restore",
    "presets",
    *OF_A_JOB,
}


@dataclass
class Nothing:
    """The root of a command line that is only completed, not run."""


def answer(words: Sequence[str], verbs: Sequence[str]) -> int:
    """Prints the answer to `dragoman --shell-completion (install|uninstall|query)=SHELL`; returns the exit code."""
    action, _, shell = (words[0] if words else "").partition("=")
    if action not in ("install", "uninstall", "query"):
        raise UserError(
            f"--shell-completion: {' '.join(words)!r} is not known. "
            f"Choices: install=SHELL, uninstall=SHELL, query=SHELL"
        )
    if shell not in SCRIPTS:
        raise unknown(f"--shell-completion {action}", shell, SCRIPTS)
    if action == "install":
        print(SCRIPTS[shell])
    elif action == "uninstall":
        print(REMOVALS[shell])
    else:
        return _query(os.environ.get("COMP_LINE", "dragoman "), shell, verbs)
    return 0


def _query(line: str, shell: str, verbs: Sequence[str]) -> int:
    """Prints the words that could end `line`."""
    _program, _, rest = line.lstrip().partition(" ")
    verb, rest = _next_word(rest)
    if verb in VERB_FIRST and rest:
        verb, rest = _next_word(rest.lstrip())
    if not rest:  # the command itself is being typed
        print(_join_words((name for name in verbs if name.startswith(verb)), shell))
        return 0
    key, is_value, begun = rest.rpartition(" ")[2].partition("=")
    if is_value and (found := choices(key.lstrip("+"))):
        print(_join_words((f"{key}={value}" for value in found if value.startswith(begun)), shell))
        return 0
    if verb in WORDS_FIRST:  # Hydra would refuse them; the last word may be the beginning of a key
        *finished, last = rest.lstrip().split(" ")
        rest = " ".join([*(word for word in finished if "=" in word), last])
    os.environ["COMP_LINE"] = f"dragoman {rest.lstrip()}"
    return compose.run(lambda _config: 0, Nothing, ["--shell-completion", f"query={shell}"], "completion")


def _join_words(words: Iterable[str], shell: str) -> str:
    """Joins words as the shell's script expects them."""
    return ("\n" if shell == "fish" else " ").join(words)


def _next_word(text: str) -> tuple[str, str]:
    """Returns the first word of `text` and the rest with its leading blank, empty while the word is being typed."""
    text = text.lstrip()
    end = text.find(" ")
    return (text, "") if end < 0 else (text[:end], text[end:])
