import numpy as np
import pytest
import torch

from dragoman.model.networks.rnnenc import EncoderDecoder, EncoderDecoderConfig
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.batch import collate
from dragoman.model.text.tokenizer import EOS
from dragoman.pipelines.comparison.gradients import curve, fresh_curves, fresh_norms, input_gradient, norms_by_distance


def test_distances_count_from_the_last_position() -> None:
    gradient = torch.tensor([[[3.0, 4.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 3.0]]])  # (B, T, D)
    assert norms_by_distance(gradient).tolist() == [2.0, 2.5]


def test_a_row_counts_from_its_own_end() -> None:
    gradient = torch.tensor([[[1.0], [2.0], [3.0]], [[4.0], [5.0], [9.0]]])
    found = curve("x", gradient, [3, 2])  # the last value is padding
    assert found.distances == [0, 1]
    assert found.norms == [4.0, 3.0]


def test_a_weakened_recurrence_vanishes_a_strong_one_explodes_and_attention_does_neither() -> None:
    kept = {
        (kind, gain): float(norms[-1] / norms[1])
        for kind, gain in (("rnn_tanh", 0.5), ("rnn_relu", 2.0), ("attention", 1.0))
        for norms in (fresh_norms(kind, gain, 20, 16, 1),)
    }
    assert kept["rnn_tanh", 0.5] < 1e-5
    assert kept["rnn_relu", 2.0] > 10.0
    assert 0.1 < kept["attention", 1.0] < 10.0


def test_fresh_curves_are_the_same_again() -> None:
    first, again = (fresh_curves(4, width=8, seeds=1) for _ in range(2))
    assert first == again
    assert {one.label for one in first} >= {"RNN tanh", "LSTM", "GRU", "self-attention"}
    assert all(one.distances == [0, 1, 2, 3, 4] for one in first)


@pytest.mark.parametrize("kind", ["rnnenc", "transformer"])
def test_a_trained_decoders_gradient_is_that_of_finite_differences(kind: str) -> None:
    torch.manual_seed(1)
    network: EncoderDecoder | Transformer
    if kind == "rnnenc":
        network = EncoderDecoder(EncoderDecoderConfig(embedding=6, width=8, layers=1), 20, 20)
    else:
        sizes = {"width": 8, "heads": 2, "feed_forward": 8, "encoder_layers": 1, "decoder_layers": 1}
        network = Transformer(TransformerConfig(**sizes), 20, 20)  # type: ignore[arg-type]  # sizes are ints
    network = network.double().eval()
    ids = range(6, 10)
    rows = [np.array([*ids, EOS]), np.array([*ids[:2], EOS])]
    batch = collate(rows, rows, [0, 1])
    gradient = input_gradient(network, batch)
    assert gradient is not None
    # moving the table's row of a word that the first target alone reads, at one place
    word, place = int(batch.target_in[0, 3]), 3
    assert (batch.target_in == word).sum() == 1
    table = network.embedding_tables()["target"]
    untied = table.weight.data.clone()

    def loss(change: float) -> float:
        def moved(_: object, arguments: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            if arguments[0] is not batch.target_in:
                return output
            shifted = output.clone()
            shifted[0, place, 2] += change
            return shifted

        handle = table.register_forward_hook(moved)
        with torch.no_grad():
            states = network(batch)
            logits = network.logits(states[0, 4])
        handle.remove()
        return float(-logits.log_softmax(0)[EOS])

    step = 1e-5
    expected = (loss(step) - loss(-step)) / (2 * step)
    assert float(gradient[0, place, 2]) == pytest.approx(expected, rel=1e-3, abs=1e-8)
    assert torch.equal(table.weight.data, untied)
    assert gradient[1, 3:].abs().sum() == 0  # behind the end of the second sentence
