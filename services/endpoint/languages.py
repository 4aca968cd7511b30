"""English names of languages, as /languages lists them."""

from langcodes import Language
from langcodes.tag_parser import LanguageTagError


def language_name(code: str) -> str:
    """Returns the English name of a language by its BCP 47 code; the code itself if it has none."""
    try:
        name = Language.get(code).display_name()
    except LanguageTagError:
        return code
    return code if name.startswith("Unknown language") else name
