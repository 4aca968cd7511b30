"""The fixed context: what is read in which order, and that nothing but the context passes between the two sides."""

import pytest
import torch

from dragoman.model.networks.rnnenc import EncoderDecoder, EncoderDecoderConfig
from dragoman.model.text.batch import TranslationBatch, collate
from dragoman.model.text.tokenizer import BOS, EOS, PAD

SIZES = {"embedding": 6, "width": 5, "layers": 2, "dropout": 0.0}


def network(**changes: object) -> EncoderDecoder:
    torch.manual_seed(0)
    return EncoderDecoder(EncoderDecoderConfig(**{**SIZES, **changes}), 30, 30).eval()  # type: ignore[arg-type]


def batch(*sources: list[int]) -> TranslationBatch:
    targets = [[7, 8, 9, EOS] for _ in sources]
    rows = [[torch.tensor(row).numpy() for row in side] for side in (sources, targets)]
    return collate(*rows, list(range(len(sources))))


@pytest.mark.parametrize("cell", ["rnn_tanh", "lstm", "gru"])
def test_reversed_source_is_the_source_written_from_its_end(cell: str) -> None:
    """The real tokens in reverse order, padding at the end."""
    written = torch.tensor([[11, 12, 13, EOS, PAD, PAD], [14, EOS, PAD, PAD, PAD, PAD], [9, 8, 7, 6, 11, EOS]])
    turned = torch.tensor([[EOS, 13, 12, 11, PAD, PAD], [EOS, 14, PAD, PAD, PAD, PAD], [EOS, 11, 6, 7, 8, 9]])
    found = network(cell=cell, reverse_source=True).encode(written).states
    torch.testing.assert_close(found, network(cell=cell).encode(turned).states)
    assert not torch.allclose(found, network(cell=cell).encode(written).states)


@pytest.mark.parametrize(("cell", "vectors"), [("lstm", 4), ("gru", 2)])
def test_the_memory_has_one_size_for_every_source(cell: str, vectors: int) -> None:
    for b in (batch([EOS]), batch([6, 7, 8, 9, 10, 11, 12, EOS])):
        memory = network(cell=cell).encode(b.source)
        assert memory.states.shape == (1, vectors, 5)
        assert memory.real.all()


def test_the_decoder_begins_in_the_encoders_last_states() -> None:
    ours = network()
    source = torch.tensor([[6, 7, EOS]])
    _, last = ours.encoder(ours.embed(ours.source_embedding, source))
    assert torch.equal(ours.start(ours.encode(source), 9)["hidden"], last)


def test_a_fed_context_reaches_every_step_though_the_state_is_lost() -> None:
    """With the decoder's first state wiped out the source is forgotten, but not where it is fed."""
    x = torch.tensor([[BOS, 7]])
    for fed in (False, True):
        ours = network(feed_context=fed)
        found = []
        for source in ([6, 7, EOS], [9, 12, EOS]):
            state = ours.start(ours.encode(torch.tensor([source])), 9)
            state["hidden"] = torch.zeros_like(state["hidden"])
            found.append(ours.advance(ours.embed(ours.target_embedding, x), state)[0])
        assert torch.equal(*found) is not fed


def test_there_is_no_attention_to_show() -> None:
    assert network().attention_maps(batch([6, EOS])) == {}
