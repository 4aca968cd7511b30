"""Senses of ambiguous words, told from their vectors: those in the sentence against static ones.

    python -m bench senses BUNDLE [--quick] [--seeds N] [--picture FILE] [--word WORD]

`sense_uses.py` makes the test. The layer is chosen on validation, once for all words of a seed, and
the accuracy is that of the test. A static vector is that of the word without a sentence.
"""

import argparse
import statistics
from pathlib import Path

from bench.result import Result
from bench.sense_uses import MOST, SENSES, accuracies, draw_uses, vectors_of
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
from dragoman.model.inference.sentence_vectors import network_vectors
from dragoman.model.inference.words_in_context import uses_picture


def run(quick: bool, args: list[str]) -> Result:
    """The mean over words and seeds; `--quick` looks at few sentences, which only the frequent words are in."""
    parser = argparse.ArgumentParser(prog="python -m bench senses")
    parser.add_argument("bundle", type=Path, help="of a network that reads English")
    parser.add_argument("--seeds", type=int, default=1 if quick else 3)
    parser.add_argument("--picture", type=Path, help="of the uses of --word, by the layer of the last seed")
    parser.add_argument("--word", choices=list(SENSES), default="that")
    options = parser.parse_args(args)
    bundle = open_bundle(options.bundle)
    layers = network_vectors(bundle).layers
    ours, static = list[float](), list[float]()
    for seed in range(1, options.seeds + 1):
        drawn = draw_uses(seed, 6_000 if quick else MOST)
        if not drawn["train"]:
            raise UserError(f"seed {seed}: too few sentences for any word")
        chosen = {
            layer: statistics.mean(
                accuracies(network_vectors(bundle, layer=layer), drawn["train"], drawn["valid"]).values()
            )
            for layer in range(layers)
        }
        layer = max(chosen, key=lambda one: chosen[one])
        vectors = network_vectors(bundle, layer=layer)
        found = accuracies(vectors, drawn["train"], drawn["test"])
        fixed = accuracies(vectors, drawn["train"], drawn["test"], static=True)
        print(f"seed {seed}: layer {layer}; validation by layer {', '.join(f'{one:.3f}' for one in chosen.values())}")
        for word, value in found.items():
            print(f"  {word:<8} {' / '.join(SENSES[word]):<22} static {fixed[word]:.3f}  in context {value:.3f}")
        ours.append(statistics.mean(found.values()))
        static.append(statistics.mean(fixed.values()))
    print(f"accuracy of seeds {', '.join(f'{value:.4f}' for value in ours)}")
    if options.picture is not None and options.word in drawn["test"]:
        uses = drawn["test"][options.word]
        senses = [one.sense for one in uses]
        uses_picture([one.use for one in uses], vectors_of(vectors, uses), options.picture, senses, "in German")
    return Result(
        "senses", statistics.mean(ours), statistics.mean(static), "accuracy, in context and static", "baseline"
    )
