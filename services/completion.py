"""Shell completion of verbs, sections, keys and choices: `eval "$(dragoman --shell-completion install=bash)"`.

The shells hand over the line so far in COMP_LINE.
"""

import os
from collections.abc import Iterator, Mapping, Sequence

from dragoman.conf import groups
from dragoman.model.errors import UserError, unknown
from dragoman.model.schema import flat
from dragoman.services.verbs import Verb

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


def answer(words: Sequence[str], verbs: Mapping[str, Verb]) -> int:
    """Prints the answer to `dragoman --shell-completion (install|query)=SHELL`; returns the exit code."""
    action, _, shell = (words[0] if words else "").partition("=")
    if action not in ("install", "query"):
        raise UserError(f"--shell-completion: {' '.join(words)!r} is not known. Choices: install=SHELL, query=SHELL")
    if shell not in SCRIPTS:
        raise unknown(f"--shell-completion {action}", shell, SCRIPTS)
    if action == "install":
        print(SCRIPTS[shell])
        return 0
    typed = os.environ.get("COMP_LINE", "dragoman ").lstrip().split(" ")
    before, begun = [word for word in typed[1:-1] if word], typed[-1]
    verb = verbs.get(next((word for word in before if word != "submit"), ""))
    offered = list(verbs) if before in ([], ["submit"]) else sorted(settings(verb.root, before, begun)) if verb else []
    print(("\n" if shell == "fish" else " ").join(word for word in offered if word.startswith(begun)))
    return 0


def settings(root: str, before: Sequence[str], begun: str) -> Iterator[str]:
    """Yields the sections and groups, the choices of a group, or the keys of a section, by what `begun` names."""
    defaults, written = groups.default_choices(root), groups.written(root)
    chosen = dict(word.split("=", 1) for word in before if "=" in word)
    section, in_section, _ = begun.partition(".")
    group, is_value, _ = begun.partition("=")
    if is_value and group in defaults:
        yield from (f"{group}={choice}" for choice in groups.choices(group))
    elif in_section and section in written:
        values = groups.merge_choice(section, chosen[section]) if section in chosen else written[section]
        yield from (f"{section}.{key}=" for key, _ in flat(values))
    elif not is_value:
        yield from (f"{key}." if isinstance(value, dict) else f"{key}=" for key, value in written.items())
        yield from (f"{group}=" for group in defaults)
