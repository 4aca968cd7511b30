"""Every translation network keeps the rules of padding, order, caching, gradients and tables."""

import pytest
import torch

from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import ARCHITECTURES, architecture, build_network, model_config
from dragoman.model.networks.network import translation_loss
from dragoman.model.precision import cannot_run
from dragoman.model.settings import LossConfig
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import BOS, EOS, PAD
from tests.model.networks.examples import (
    LANGUAGE,
    RECURRENT,
    TRANSLATION,
    check_gradients,
    sentences,
    smooth,
    translation,
)

every = pytest.mark.parametrize("name", TRANSLATION)
SEPARATE = pytest.mark.parametrize("name", ["transformer", *RECURRENT])  # those that may have a table a side


def test_every_architecture_has_a_row_here_or_among_the_language_models() -> None:
    rows = {settings["architecture"] for settings in (TRANSLATION | LANGUAGE).values()}
    assert rows == {name for name in ARCHITECTURES if architecture(name).kind in ("translation", "language")}


@every
def test_stepwise_decoding_equals_teacher_forcing(name: str) -> None:
    ours, b = translation(name), sentences(4, 6)
    with torch.no_grad():
        expected = ours.logits(ours(b))
        state = ours.start(ours.encode(b.source), 10)
        for t in range(b.target_in.shape[1]):
            logits, state = ours.step(b.target_in[:, t], state)
            torch.testing.assert_close(logits[1], expected[1, t], rtol=1e-4, atol=1e-5)
            if t < 5:  # beyond it the first row is padding
                torch.testing.assert_close(logits[0], expected[0, t], rtol=1e-4, atol=1e-5)


@every
def test_a_state_can_be_copied_dropped_and_reordered(name: str) -> None:
    ours, b = translation(name), sentences(2, 9, 5)
    rows = torch.tensor([2, 0, 2])
    with torch.no_grad():
        _, state = ours.step(torch.tensor([BOS] * 3), ours.start(ours.encode(b.source), 10))
        expected, _ = ours.step(torch.tensor([7, 8, 9]), state)
        found, _ = ours.step(torch.tensor([9, 7, 9]), ours.reorder(state, rows))
    torch.testing.assert_close(found, expected[rows], rtol=1e-4, atol=1e-5)


@every
def test_a_sentence_alone_is_the_sentence_in_a_batch(name: str) -> None:
    """Lengths differ wildly; the source of one token is the end of sentence alone."""
    ours, lengths = translation(name), (1, 19, 3, 17)
    together = sentences(*lengths)
    with torch.no_grad():
        states = ours(together)
        for row, length in enumerate(lengths):
            alone = TranslationBatch(
                together.source[row : row + 1, :length],
                together.target_in[row : row + 1, : length + 1],
                together.target_out[row : row + 1, : length + 1],
                length + 1, together.ids[:1],
            )  # fmt: skip
            torch.testing.assert_close(ours(alone)[0], states[row, : length + 1], rtol=1e-4, atol=1e-5)


@every
def test_padding_changes_no_loss_and_no_gradient(name: str) -> None:
    found = []
    for wider in (1, 8):
        ours = translation(name)
        loss, nll = translation_loss(ours, sentences(2, 5, 1).padded_to(wider), LossConfig())
        loss.backward()
        found.append([loss.detach(), nll, *(p.grad for p in ours.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@every
def test_a_position_depends_on_no_later_one(name: str) -> None:
    ours, b = translation(name), sentences(5)
    with torch.no_grad():
        before = ours(b)
        b.target_in[0, 4] = 7 if b.target_in[0, 4] != 7 else 8
        after = ours(b)
    torch.testing.assert_close(after[:, :4], before[:, :4])
    assert not torch.allclose(after[:, 4:], before[:, 4:])


@every
def test_nothing_but_padding_gives_numbers(name: str) -> None:
    ours, one = translation(name), torch.tensor([[BOS], [BOS]])
    b = TranslationBatch(torch.full((2, 3), PAD), one, torch.full((2, 1), EOS), 2, torch.arange(2).numpy())
    loss, _ = translation_loss(ours, b, LossConfig())
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in ours.parameters() if p.grad is not None)


@every
def test_gradients_match_finite_differences(name: str) -> None:
    ours, b = translation(name, **smooth(TRANSLATION[name])).double(), sentences(3, 1, 5)
    real = b.target_out != PAD
    check_gradients(ours, lambda: ours.logits(ours(b)).log_softmax(-1).gather(-1, b.target_out[..., None])[real].sum())


@every
def test_half_precision_stays_near(name: str) -> None:
    ours, b = translation(name).train(), sentences(4, 9)
    if reason := cannot_run(ours, "bf16", torch.device("cpu")):
        pytest.skip(reason)
    exact = translation_loss(ours, b, LossConfig())[0]
    with torch.autocast("cpu", torch.bfloat16):
        rough = translation_loss(ours, b, LossConfig())[0]
    rough.backward()
    assert rough.item() == pytest.approx(exact.item(), rel=0.02)


@SEPARATE
def test_tables_are_tied_as_asked(name: str) -> None:
    for tie in ("all", "target", "none"):
        ours = translation(name, tie=tie)
        tables = ours.embedding_tables()
        assert (tables["source"], tables["target"]) == (ours.source_embedding, ours.target_embedding)
        assert (tables["source"] is tables["target"]) is (tie == "all")
        assert (ours.output.weight is tables["target"].weight) is (tie != "none")
    with pytest.raises(UserError, match=r"tokenizer\.joint=true"):
        build_network(model_config(TRANSLATION[name] | {"tie": "all"}), 30, 31)
