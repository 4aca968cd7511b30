"""The tree is a prefix code, as short as any."""

import heapq

import numpy as np
import pytest

from dragoman.model.word_vectors import huffman
from dragoman.model.word_vectors.huffman import HuffmanTree

FIBONACCI = np.array([832040, 514229, 317811, 196418, 121393, 75025, 46368, 28657, 17711, 10946, 6765, 4181, 2584])
TEXTS = {
    "two": np.array([1, 1]),
    "three": np.array([5, 2, 1]),
    "uniform": np.full(1000, 3),
    "zipf": np.maximum(1, (1e6 / np.arange(1, 3001)).astype(np.int64)),
    "chain": FIBONACCI,
    "extreme": np.array([10**15, 1, 1]),
}


def least_length(counts: np.ndarray) -> int:
    heap = counts.tolist()
    heapq.heapify(heap)
    total = 0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        total += both
        heapq.heappush(heap, both)
    return total


@pytest.mark.parametrize("counts", TEXTS.values(), ids=TEXTS.keys())
def test_codes_are_optimal_and_prefix_free(counts: np.ndarray) -> None:
    tree = HuffmanTree.of(counts)
    lengths = np.diff(tree.offsets)
    assert (lengths * counts).sum() == least_length(counts)
    assert (2.0**-lengths).sum() == 1.0  # Kraft: a full tree
    codes = [tuple(tree.codes[a:b]) for a, b in zip(tree.offsets[:-1], tree.offsets[1:], strict=True)]
    assert len(set(codes)) == len(codes)
    proper = {code[:k] for code in codes for k in range(len(code))}
    assert not proper & set(codes)
    assert tree.longest == max(map(len, codes))


@pytest.mark.parametrize("piece", [1, 7, 65_536])
def test_a_node_is_visited_by_the_words_behind_it(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huffman, "PIECE", piece)
    tree = HuffmanTree.of(np.array([8, 4, 3, 1]))  # the root, then all words but the first, then the last two
    assert tree.visits(np.array([0.1, 0.2, 0.3, 0.4])).tolist() == pytest.approx([1.0, 0.9, 0.7])
    counts = np.maximum(1, (1e4 / np.arange(1, 101)).astype(np.int64))
    visits = HuffmanTree.of(counts).visits(counts.astype(float))
    assert visits[0] == counts.sum()
    assert (np.diff(visits) <= 0).all()
    assert visits.sum() == least_length(counts)


@pytest.mark.parametrize("counts", TEXTS.values(), ids=TEXTS.keys())
def test_paths_lead_from_the_root_to_one_word_each(counts: np.ndarray) -> None:
    tree = HuffmanTree.of(counts)
    ends: dict[tuple[int, int], set[int]] = {}  # what lies behind each branch: inner nodes, or -1 - word
    for word, (a, b) in enumerate(zip(tree.offsets[:-1], tree.offsets[1:], strict=True)):
        assert tree.nodes[a] == 0
        for i in range(a, b):
            behind = int(tree.nodes[i + 1]) if i + 1 < b else -1 - word
            ends.setdefault((int(tree.nodes[i]), int(tree.codes[i])), set()).add(behind)
    assert len(ends) == 2 * (len(counts) - 1)
    assert all(len(behind) == 1 for behind in ends.values())


def test_inner_nodes_are_numbered_by_falling_weight() -> None:
    counts = TEXTS["zipf"]
    tree = HuffmanTree.of(counts)
    weights = np.bincount(tree.nodes, weights=np.repeat(counts, np.diff(tree.offsets)))
    assert len(weights) == len(counts) - 1
    assert (np.diff(weights) <= 0).all()
