"""Names of languages, as lists of languages show them."""

from langcodes import Language
from langcodes.tag_parser import LanguageTagError


def language_name(code: str, shown: str = "en") -> str:
    """Returns the name of a language by its BCP 47 code, in the language `shown`; the code itself if it has none."""
    try:
        name = Language.get(code).display_name(shown)
    except LanguageTagError:
        return code
    return code if name.startswith("Unknown language") else name
