"""Shell completion of commands, keys, choices and values.

The shells hand over the line so far in COMP_LINE. Install with `eval "$(dragoman --shell-completion install=bash)"`.
"""

import os
from collections.abc import Iterable, Sequence

from dragoman.conf import compose
from dragoman.conf.groups import choices as group_choices
from dragoman.conf.groups import default_choices
from dragoman.model.errors import UserError, unknown
from dragoman.model.schema import flat
from dragoman.services.choices import choices

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
    *words, begun = rest.lstrip().split(" ")
    key, is_value, text = begun.partition("=")
    values = choices(key.lstrip("+")) if is_value else []
    completed = [f"{key}={value}" for value in values if value.startswith(text)] or _settings(words, begun)
    print(_join_words(completed, shell))
    return 0


def _settings(words: Sequence[str], begun: str) -> list[str]:
    """Returns the settings that begin with `begun`: choices, a key's value, or keys, all of them after `words`."""
    try:
        tree = compose.values([word for word in words if "=" in word])
    except UserError:  # the line is not right yet
        tree = compose.values([])
    key, is_value, _ = begun.partition("=")
    name = key.lstrip("+~")
    groups_of = {group: group_choices(group) for group in (*default_choices(), "experiment")}
    if is_value and name in groups_of:
        words_offered = [f"{name}={choice}" for choice in groups_of[name]]
    elif is_value:
        words_offered = [f"{key}={value}" for key, value in flat(tree) if key == name]
    else:
        *sections, _ = name.split(".")
        section: object = tree
        for part in sections:
            section = section.get(part) if isinstance(section, dict) else None
        prefix, dot = "".join(f"{part}." for part in sections), bool(sections)
        keys = section.items() if isinstance(section, dict) else ()
        words_offered = [f"{prefix}{key}{'.' if isinstance(value, dict) else '='}" for key, value in keys]
        words_offered += [f"{group}=" for group in groups_of if not dot]
    mark = key[: len(key) - len(name)]
    words_offered = list({word.rstrip(".=") for word in words_offered}) if mark == "~" else words_offered
    return sorted(mark + word for word in words_offered if (mark + word).startswith(begun))


def _join_words(words: Iterable[str], shell: str) -> str:
    """Joins words as the shell's script expects them."""
    return ("\n" if shell == "fish" else " ").join(words)


def _next_word(text: str) -> tuple[str, str]:
    """Returns the first word of `text` and the rest with its leading blank, empty while the word is being typed."""
    text = text.lstrip()
    end = text.find(" ")
    return (text, "") if end < 0 else (text[:end], text[end:])
