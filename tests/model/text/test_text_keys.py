"""The hashes that decide within one sharding: equal for equal text, and for no other of many that are much alike."""

from itertools import product

import numpy as np

from dragoman.model.text.text_keys import folded_keys, pair_keys


def alike() -> list[str]:
    """All 262,143 texts of at most 17 letters, each an a or a b."""
    return ["".join(letters) for size in range(18) for letters in product("ab", repeat=size)]


def test_texts_that_are_much_alike_have_keys_of_their_own() -> None:
    texts = alike()
    keys, near = folded_keys("\n".join(texts))
    assert len(np.unique(keys)) == len(texts)
    assert len(np.unique(near)) == len(texts)
    assert (keys[1:] == near[1:]).all(), "of letters alone the two are one"


def test_keys_of_pairs_are_of_both_sides_in_their_order() -> None:
    texts = alike()[:512]
    pairs = list(product(texts, texts))
    keys = pair_keys(*("\n".join(side).encode() for side in zip(*pairs, strict=True)))
    assert len(np.unique(keys)) == len(pairs)


def test_a_key_is_that_of_the_line_wherever_it_stands() -> None:
    lines = ["Grüße", "", "3 Ωmega", "𐐨 deseret, 日本", "\U0002f800 above", "naïve"]
    whole = folded_keys("\n".join(lines))
    for number, line in enumerate(lines):
        alone = folded_keys(line)
        assert [keys[number] for keys in whole] == [keys[0] for keys in alone]
    sides = "\n".join(lines).encode(), "\n".join(reversed(lines)).encode()
    alone_pairs = [pair_keys(one.encode(), other.encode())[0] for one, other in zip(lines, lines[::-1], strict=True)]
    assert pair_keys(*sides).tolist() == alone_pairs
