"""LibreTranslate's own server, run by its own interpreter (see libretranslate.py), with two names of its library set.

- `Translator`: random weights never end a sentence, so every answer gets LENGTH tokens, as ours does.
- `MiniSBDSentencizer`: its sentence splitter is a download of its own. A text here is one sentence, found for free.

    python -m bench.libretranslate_server LENGTH --port PORT [options of `libretranslate`]
"""

import sys
from typing import Any

import ctranslate2
from argostranslate import sbd, translate
from libretranslate.main import main

LENGTH = int(sys.argv.pop(1))


class FixedLength(ctranslate2.Translator):  # type: ignore[misc]  # no types
    """CTranslate2 with answers of LENGTH tokens."""

    def translate_batch(self, *tokens: Any, **options: Any) -> Any:
        return super().translate_batch(*tokens, **options, min_decoding_length=LENGTH, max_decoding_length=LENGTH)


class WholeText(sbd.ISentenceBoundaryDetectionModel):  # type: ignore[misc]  # no types
    """A splitter for texts of one sentence."""

    def __init__(self, package: Any) -> None:
        self.pkg = package

    def split_sentences(self, text: str) -> list[str]:
        return [text]


ctranslate2.Translator = FixedLength
translate.MiniSBDSentencizer = WholeText

if __name__ == "__main__":
    main()
else:
    application = main()  # for gunicorn, with --wsgi among the words
