"""Parameters and operations by part against the numbers of lectures and papers."""

from typing import Any

import pytest
import torch

from dragoman.conf import groups
from dragoman.model.networks.architectures import architecture, build_network, model_config
from dragoman.model.networks.gpt import DecoderOnly, DecoderOnlyConfig
from dragoman.model.networks.parts import BOTH, FORWARD, matrices_of_lectures, parts, step_costs


def test_gpt_3_has_the_175_181_291_520_of_the_lecture() -> None:
    """Brown et al. 2020, table 2.1, as lectures count it: the unembedding apart, no biases, norms and positions."""
    sizes: dict[str, Any] = {"width": 12288, "heads": 96, "feed_forward": 49152, "layers": 96, "max_positions": 2048}
    with torch.device("meta"):
        network = DecoderOnly(DecoderOnlyConfig(**sizes, tie=False), 50257)
    every = parts(network)
    counts = {one.part: one.parameters for one in every}
    assert counts["embedding"] == counts["unembedding"] == 617_558_016
    assert counts["queries"] == counts["keys"] == counts["values"] == counts["output"] == 14_495_514_624
    assert counts["up"] == counts["down"] == 57_982_058_496
    assert matrices_of_lectures(every) == 175_181_291_520
    assert {one.part: one.formula for one in every}["keys"] == "96 x H K x D"


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in groups.choices("model")
        if architecture(groups.merge_choice("model", name)["architecture"]).kind != "vectors"
    ],
)
def test_the_parts_are_all_parameters(name: str) -> None:
    with torch.device("meta"):
        network = build_network(model_config(groups.merge_choice("model", name)), 1000, 1000)
    assert sum(one.parameters for one in parts(network)) == network.parameter_count()


def test_the_counted_operations_are_those_of_the_products() -> None:
    """Two operations per parameter and token forwards, four backwards; attention's two products apart."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"width": 16, "heads": 2, "feed_forward": 32, "layers": 2, "max_positions": 32}
    network = DecoderOnly(DecoderOnlyConfig(**sizes), 40)
    costs = {one.part: one for one in step_costs(network, 3, 20)}
    tokens = 3 * 20
    assert costs["feed-forward"].flops == 2 * tokens * 2 * 2 * 16 * 32
    assert costs["unembedding"].flops == 2 * tokens * 16 * 40
    scores = 2 * 3 * 2 * (2 * 20 * 20 * 16)  # q k' and the weights times v, of two layers
    assert costs["attention"].flops == 2 * tokens * 2 * 4 * 16 * 16 + scores
    whole, both = costs.pop(FORWARD), costs.pop(BOTH)
    assert whole.flops == sum(one.flops for one in costs.values())
    assert both.flops == 3 * whole.flops
    assert all(one.seconds > 0 for one in [*costs.values(), whole, both])
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_tied_table_is_the_embedding_and_counts_once() -> None:
    sizes: dict[str, Any] = {"width": 16, "heads": 2, "feed_forward": 32, "layers": 1, "max_positions": 32}
    every = {one.part: one for one in parts(DecoderOnly(DecoderOnlyConfig(**sizes), 40))}
    assert every["embedding"].parameters == 40 * 16
    assert "unembedding" not in every


@pytest.mark.parametrize(
    ("name", "vocabulary", "parameters", "near"),
    [
        # The paper's base has 65M and its big 213M parameters with 37,000 BPE tokens (table 3).
        ("transformer_tiny", 10_000, 2.6e6, 0.05),
        ("transformer_small", 10_000, 36.5e6, 0.05),
        ("transformer_base", 37_000, 63e6, 0.05),
        ("transformer_big", 37_000, 214e6, 0.05),
        ("gpt_small", 50_257, 124_439_808, 0),
        # BERT's masked-token model, less two segment vectors and the normalisation of the embeddings.
        ("bert_base", 30_522, 109_514_298 - 2 * 768 - 2 * 768, 0),
    ],
)
def test_shipped_sizes_are_the_literatures(name: str, vocabulary: int, parameters: float, near: float) -> None:
    assert count(name, vocabulary) == pytest.approx(parameters, rel=near)


def count(name: str, vocabulary: int) -> int:
    """The parameters of a shipped model."""
    with torch.device("meta"):
        return build_network(model_config(groups.merge_choice("model", name)), vocabulary, vocabulary).parameter_count()
