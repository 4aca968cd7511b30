"""The tree is a prefix code, as short as any."""

import heapq

import numpy as np
import pytest

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
