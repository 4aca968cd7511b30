"""The glossary file of an endpoint: terms that every request gets, after those that it brings along."""

from dataclasses import dataclass, field
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.services.texts.glossary import Glossary, read_glossary

KEY = "serve.glossary"


@dataclass
class TermsFile:
    """The terms of a file: lines of source, tab and target (.csv: with commas), or .tbx, which names the languages."""

    path: str
    _read: dict[tuple[str, str], Glossary | None] = field(default_factory=dict)

    def check(self, pairs: list[tuple[str, str]]) -> None:
        """Reads the file for the pairs that are served.

        Raises UserError: it cannot be read, has no term for any pair, or names no languages where several are served.
        """
        if len(pairs) > 1 and Path(self.path).suffix.lower() != ".tbx":
            names = ", ".join(f"{source}-{target}" for source, target in pairs)
            raise UserError(f"{KEY}={self.path} names no languages, and {names} are served; write it as .tbx")
        problems = [problem for pair in pairs if (problem := self._problem(*pair))]
        if pairs and len(problems) == len(pairs):
            raise problems[0]

    def joined(self, source: str, target: str, own: Glossary | None) -> Glossary | None:
        """Returns the file's terms for a pair with a request's `own`, which go before them."""
        if (source, target) not in self._read:
            self._problem(source, target)
        terms = self._read[source, target]
        return own if terms is None else terms if own is None else Glossary({**terms.terms, **own.terms})

    def _problem(self, source: str, target: str) -> UserError | None:
        """Reads the terms of a pair; returns why there are none."""
        try:
            self._read[source, target] = read_glossary(self.path, KEY, source, target)
        except UserError as problem:
            self._read[source, target] = None
            return problem
        return None
