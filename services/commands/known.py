"""Known translations for `dragoman translate`, from a TMX file."""

from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.inputs.kinds import kind_of
from dragoman.model.inputs.units import units_of
from dragoman.model.languages import is_language, nearest
from dragoman.services.texts.known import KnownTranslations, Match, Units, comparable


def read_known(path: str, key: str, source: str, target: str, fuzzy: float | None) -> KnownTranslations:
    """Returns the units of these languages in a TMX file; `key` names the setting."""
    file, units = Path(path), Units()
    if not file.is_file() or kind_of(file) != "tmx":
        raise UserError(f"{key}={path}: is no TMX file")
    languages: dict[str, None] = {}
    for unit in units_of(file):
        texts = {code: text for code, text in unit.items() if text and is_language(code)}
        languages |= dict.fromkeys(texts)
        here, there = (nearest(code, tuple(texts)) for code in (source, target))
        if here and there and here != there:
            units[comparable(texts[here])] = Match(texts[here], texts[there], 100.0, file.name)
    if not units:
        raise UserError(f"{key}={path}: has no unit from {source} to {target}; its languages: {', '.join(languages)}")
    return KnownTranslations(units, fuzzy)
