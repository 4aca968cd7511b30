"""A random segmentation of one text: what training draws from a table, drawn anew for each word."""

import re

import numpy as np

from dragoman.model.text.subwords import SubwordTokenizer
from dragoman.model.text.tokenizer import UNK, Ids, without_surrogates
from dragoman.model.text.word_table import SPACE


def sample(tokenizer: SubwordTokenizer, text: str, rng: np.random.Generator, strength: float = 0.1) -> Ids:
    """Repeatable from `rng`'s state; the library's own sampling draws from a generator that cannot be set again."""
    processor = tokenizer.processor
    words = re.findall(f"{SPACE}?[^{SPACE}]+|{SPACE}", processor.normalize(without_surrogates(text)))
    ids: list[int] = []
    for word in words:
        symbol = word.startswith(f"{SPACE}<") and word[1:] in tokenizer.tags
        for piece in [word] if symbol else tokenizer.segment(word, rng, strength):
            found = [int(processor.piece_to_id(piece))]
            if found == [UNK]:
                spelled = [int(processor.piece_to_id(f"<0x{byte:02X}>")) for byte in piece.encode()]
                found = found if UNK in spelled else spelled
            if found == [UNK] and ids[-1:] == [UNK]:
                continue  # the library joins neighbouring unknown characters into one
            ids.extend(found)
    return np.asarray(ids, dtype=tokenizer.dtype)
