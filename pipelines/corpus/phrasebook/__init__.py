"""The built-in corpus: a feature grammar that writes English-German pairs with their gold word alignment."""

from dragoman.pipelines.corpus.phrasebook.generate import write_corpus
from dragoman.pipelines.corpus.phrasebook.words import tokens

__all__ = ["tokens", "write_corpus"]
