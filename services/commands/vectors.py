"""`dragoman vectors distil RUN`: an encoder's vectors as a static table, in the format of model2vec.

It is `dragoman export model2vec export.vectors=RUN` by another name.
"""

from collections.abc import Sequence

from dragoman.conf import compose
from dragoman.conf.options import positional
from dragoman.model.errors import UserError
from dragoman.services.commands.export import ExportConfig, export

USAGE = "dragoman vectors distil RUN [export.output=FOLDER] [export.components=N]"


def main(argv: Sequence[str]) -> int:
    """Returns the command's exit code."""
    words, rest = positional(argv)
    if len(words) == 2:
        rest = [f"export.vectors={words[1]}", *rest]
    return compose.run_section(lambda config: distil(config, words), "export", ExportConfig, rest, "vectors")


def distil(config: ExportConfig, words: Sequence[str]) -> int:
    """Writes the table of the encoder that `config.vectors` names.

    Raises UserError: another action than `distil`, or what `export` refuses.
    """
    if not words or words[0] != "distil" or len(words) > 2:
        raise UserError(f"vectors {' '.join(words)}: the one action is distil: {USAGE}".replace("  ", " "))
    return export(config, ["model2vec"])
