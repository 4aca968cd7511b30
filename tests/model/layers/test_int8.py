"""Layers that compute in int8: their numbers are those of the int8 export, and their gradient passes the rounding."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from dragoman.model.bundles.ctranslate2 import export
from dragoman.model.inference.engines import runs_int8
from dragoman.model.layers.int8 import Int8Embedding, Int8Linear, compute_in_int8, rounded
from dragoman.model.layers.losses import vocabulary_loss
from dragoman.model.layers.rdrop import paired_vocabulary_loss
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.tokenizer import BOS, EOS

FLAGS = Path("/proc/cpuinfo").read_text()
# AVX2 without VNNI adds two products of 8 bits in 16, which overflow: the export's numbers are others there
OVERFLOWS = " avx2 " in FLAGS and (os.environ.get("ONEDNN_MAX_CPU_ISA") == "AVX2" or "vnni" not in FLAGS)


def test_a_row_becomes_integers_times_one_factor() -> None:
    x = torch.tensor([[1.0, -0.5, 0.004], [0.0, 0.0, 0.0], [254.0, 3.0, -1.0]])
    expected = torch.tensor([[127, -64, 1], [0, 0, 0], [254, 4, 0]]) / torch.tensor([[127.0], [1.0], [1.0]])
    torch.testing.assert_close(rounded(x), expected)  # -63.5 becomes the even -64, 1.5 becomes 2, -0.5 becomes 0


def test_the_gradient_passes_the_rounding() -> None:
    torch.manual_seed(1)
    layer = nn.Linear(6, 5)
    layer.__class__ = Int8Linear
    x, upstream = torch.randn(3, 6, requires_grad=True), torch.randn(3, 5)
    layer(x).backward(upstream)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, upstream @ rounded(layer.weight))
    torch.testing.assert_close(layer.weight.grad, upstream.T @ rounded(x.detach()))
    torch.testing.assert_close(layer.bias.grad, upstream.sum(0))


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("autocast", [False, True])
def test_the_losses_multiply_as_the_layer_does(paired: bool, autocast: bool) -> None:
    torch.manual_seed(1)
    output = nn.Linear(8, 11)
    output.__class__ = Int8Linear
    states = torch.randn(2, 5, 8, requires_grad=True)
    targets = torch.randint(11, (5,))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        if paired:
            _, nll = paired_vocabulary_loss(states, targets, output, 0.1, 0.0)
        else:
            _, nll = vocabulary_loss(states[0], targets, output, 0.1)
    used = states if paired else states[:1]
    expected = sum(nn.functional.cross_entropy(output(one), targets, reduction="sum") for one in used) / len(used)
    torch.testing.assert_close(nll, expected, rtol=0.02 if autocast else 1e-5, atol=0)


def network(tie: str, activation: str) -> Transformer:
    """A small network whose weights have some large values, as trained ones do."""
    torch.manual_seed(3)
    sizes = TransformerConfig(width=32, heads=4, feed_forward=48, encoder_layers=2, decoder_layers=2)
    sizes.tie, sizes.activation, sizes.max_positions = tie, activation, 32  # type: ignore[assignment]  # of the parameters
    made = Transformer(sizes, 40, 40)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(torch.where(torch.rand_like(parameter) < 0.02, 4.0, 1.0))
    return made.eval()


@pytest.mark.skipif(not runs_int8("cpu"), reason="this processor runs no int8")
@pytest.mark.skipif(OVERFLOWS, reason="this processor has no VNNI: its sums of int8 products overflow")
@pytest.mark.parametrize(("tie", "activation"), [("all", "relu"), ("none", "swiglu")])
def test_it_computes_what_the_int8_export_computes(tmp_path: Path, tie: str, activation: str) -> None:
    import ctranslate2

    made = network(tie, activation)
    names = [f"t{number}" for number in range(40)]
    export(made, tmp_path / "ct2-int8", names, names, "int8")
    source = [10, 30, 12, 25, 38, 17, EOS]
    target = [BOS, 33, 21, 14, 29, 36]
    engine = ctranslate2.Translator(str(tmp_path / "ct2-int8"), compute_type="int8")
    tokens = [[names[one] for one in ids] for ids in (source, target[1:])]
    theirs = torch.tensor(engine.score_batch(tokens[:1], tokens[1:])[0].log_probs)

    def ours() -> torch.Tensor:
        with torch.no_grad():
            memory, after = made.encode(torch.tensor([source])), [*target[1:], EOS]
            state, found = made.start(memory, 8), []
            for token, following in zip(target, after, strict=True):
                logits, state = made.step(torch.tensor([token]), state)
                found.append(logits[0].log_softmax(0)[following])
        return torch.stack(found)

    plain = (ours() - theirs).abs().mean()
    state_before = made.state_dict()
    compute_in_int8(made)
    assert (ours() - theirs).abs().mean() < plain / 10
    assert made.state_dict().keys() == state_before.keys()


def test_shared_tables_stay_shared_and_nothing_is_left_out() -> None:
    made = network("all", "relu")
    compute_in_int8(made)
    assert made.source_embedding is made.target_embedding and isinstance(made.source_embedding, Int8Embedding)
    assert made.output.weight is made.source_embedding.weight
    assert {type(module) for module in made.modules() if isinstance(module, nn.Linear)} == {Int8Linear}
