"""What holds for every recurrent translation network: padding, caching, gradients, tables, bundles."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.model.bundles.translation import load_bundle, save_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.translator import open_translator
from dragoman.model.networks.architectures import build_network, model_config, translation_loss
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.precision import cannot_run
from dragoman.model.settings import LossConfig
from dragoman.model.text.batch import TranslationBatch, collate
from dragoman.model.text.tokenizer import BOS, EOS, PAD, SPECIAL_PIECES, TokenizerPair
from dragoman.model.text.words import WordTokenizer

FIXED = {"architecture": "rnnenc", "embedding": 6, "width": 8, "dropout": 0.0}
SEARCH = {"architecture": "rnnsearch", "embedding": 6, "width": 8, "encoder_width": 4, "dropout": 0.0}
NETWORKS: dict[str, dict[str, Any]] = {
    "fixed": {**FIXED, "layers": 2},
    "fixed, reversed, fed": {**FIXED, "layers": 1, "cell": "gru", "reverse_source": True, "feed_context": True},
    "output, additive": {**SEARCH, "attention_width": 5},
    "output, dot, lstm": {**SEARCH, "attention": "dot", "cell": "lstm", "decoder_layers": 2},
    "state, general, deep": {**SEARCH, "attention": "general", "context": "state", "encoder_layers": 2},
    "feeding, scaled, rnn": {**SEARCH, "attention": "scaled_dot", "context": "feeding", "cell": "rnn_tanh"},
}


def network(name: str, vocabulary: int = 30, **changes: object) -> TranslationNetwork:
    torch.manual_seed(0)
    made = build_network(model_config({**NETWORKS[name], **changes}), vocabulary, vocabulary).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.4)
    return made


def batch(*lengths: int) -> TranslationBatch:
    """Sources of the given lengths and targets one token longer; EOS included."""
    generator = torch.Generator().manual_seed(1)

    def side(extra: int) -> list[Any]:
        rows = [[*torch.randint(6, 30, (n + extra - 1,), generator=generator).tolist(), EOS] for n in lengths]
        return [torch.tensor(row).numpy() for row in rows]

    return collate(side(0), side(1), list(range(len(lengths))))


@pytest.mark.parametrize("name", NETWORKS)
def test_stepwise_decoding_equals_teacher_forcing(name: str) -> None:
    ours, b = network(name), batch(6, 6)
    with torch.no_grad():
        expected = ours.logits(ours(b))
        state = ours.start(ours.encode(b.source), 10)
        for t in range(b.target_in.shape[1]):
            logits, state = ours.step(b.target_in[:, t], state)
            torch.testing.assert_close(logits, expected[:, t], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_state_can_be_copied_dropped_and_reordered(name: str) -> None:
    ours, b = network(name), batch(2, 9, 5)
    rows = torch.tensor([2, 0, 2])
    with torch.no_grad():
        _, state = ours.step(torch.tensor([BOS] * 3), ours.start(ours.encode(b.source), 10))
        assert all(len(value) == 3 for value in state.values())
        expected, _ = ours.step(torch.tensor([7, 8, 9]), state)
        found, _ = ours.step(torch.tensor([9, 7, 9]), ours.reorder(state, rows))
    torch.testing.assert_close(found, expected[rows])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_sentence_alone_is_the_sentence_in_a_batch(name: str) -> None:
    """Of wildly different lengths; the source of one token is the end of sentence alone."""
    ours, together = network(name), batch(1, 60, 3, 17)
    with torch.no_grad():
        states = ours(together)
        for row, length in enumerate((1, 60, 3, 17)):
            alone = TranslationBatch(
                together.source[row : row + 1, :length],
                together.target_in[row : row + 1, : length + 1],
                together.target_out[row : row + 1, : length + 1],
                length + 1, length, together.ids[:1],
            )  # fmt: skip
            torch.testing.assert_close(ours(alone)[0], states[row, : length + 1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_padding_changes_no_loss_and_no_gradient(name: str) -> None:
    found = []
    for wider in (1, 8):
        ours = network(name)
        loss, nll = translation_loss(ours, batch(2, 5, 1).padded_to(wider), LossConfig())
        loss.backward()
        found.append([loss.detach(), nll, *(p.grad for p in ours.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_position_depends_on_no_later_one(name: str) -> None:
    ours, b = network(name), batch(5)
    with torch.no_grad():
        before = ours(b)
        b.target_in[0, 4] = 7 if b.target_in[0, 4] != 7 else 8
        after = ours(b)
    torch.testing.assert_close(after[:, :4], before[:, :4])
    assert not torch.allclose(after[:, 4:], before[:, 4:])


@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_but_padding_gives_numbers(name: str) -> None:
    ours = network(name)
    one = torch.tensor([[BOS], [BOS]])
    b = TranslationBatch(torch.full((2, 3), PAD), one, torch.full((2, 1), EOS), 2, 0, torch.arange(2).numpy())
    loss, _ = translation_loss(ours, b, LossConfig())
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in ours.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_match_finite_differences(name: str) -> None:
    """Of the whole loss, along random directions."""
    ours, b = network(name).double(), batch(3, 1, 5)
    torch.manual_seed(4)

    def loss() -> torch.Tensor:
        return ours.logits(ours(b)).log_softmax(-1).gather(-1, b.target_out[..., None])[b.target_out != PAD].sum()

    loss().backward()
    for parameter in dict.fromkeys(ours.parameters()):
        assert parameter.grad is not None
        direction = torch.randn_like(parameter)
        slope = (parameter.grad * direction).sum()
        with torch.no_grad():
            high = loss_at(parameter, direction, 1e-5, loss)
            low = loss_at(parameter, direction, -1e-5, loss)
        torch.testing.assert_close((high - low) / 2e-5, slope, rtol=1e-6, atol=1e-6)


def loss_at(parameter: torch.nn.Parameter, direction: torch.Tensor, by: float, loss: Any) -> torch.Tensor:
    parameter += by * direction
    value: torch.Tensor = loss()
    parameter -= by * direction
    return value


@pytest.mark.parametrize("name", NETWORKS)
def test_tables_are_tied_as_asked(name: str) -> None:
    def fresh(tie: str) -> TranslationNetwork:
        return build_network(model_config({**NETWORKS[name], "tie": tie}), 30, 30)

    for tie in ("all", "target", "none"):
        ours = fresh(tie)
        tables = ours.embedding_tables()
        assert (tables["source"] is tables["target"]) is (tie == "all")
        assert (ours.output.weight is tables["target"].weight) is (tie != "none")
    with pytest.raises(UserError, match=r"tokenizer\.joint=true"):
        build_network(model_config({**NETWORKS[name], "tie": "all"}), 30, 31)


@pytest.mark.parametrize("name", NETWORKS)
def test_half_precision_stays_near(name: str) -> None:
    ours, b = network(name).train(), batch(4, 9)
    if reason := cannot_run(ours, "bf16", torch.device("cpu")):
        pytest.skip(reason)
    exact = translation_loss(ours, b, LossConfig())[0]
    with torch.autocast("cpu", torch.bfloat16):
        rough = translation_loss(ours, b, LossConfig())[0]
    rough.backward()
    assert rough.item() == pytest.approx(exact.item(), rel=0.02)


def words() -> TokenizerPair:
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *(f"w{i}" for i in range(40))])
    return TokenizerPair(tokenizer, tokenizer)


def save(folder: Path, name: str) -> Path:
    ours = network(name, 46)
    facts = {"pair": "en-de", "decode": {"beam": 3, "max_ratio": 0.0, "max_extra": 6}}
    save_bundle(folder, network=ours, config=ours.config, tokenizers=words(), facts=facts)
    return folder


@pytest.mark.parametrize("name", ["fixed", "output, additive", "feeding, scaled, rnn"])
def test_a_bundle_comes_back_and_is_served_by_pytorch(name: str, tmp_path: Path) -> None:
    bundle = load_bundle(save(tmp_path / "b", name))
    ours = network(name, 46)
    assert bundle.config == ours.config
    for key, value in ours.state_dict().items():
        assert torch.equal(value, bundle.network.state_dict()[key])
    assert bundle.network.output.weight is bundle.network.embedding_tables()["target"].weight
    translator = open_translator(bundle)
    assert translator.engine.name == "torch"
    together = translator.translate(["w1 w2 w3", "", "w7", "w5 " * 700, "unseen words alone"])
    assert [bool(answer.text) for answer in together] == [True, False, True, True, True]
    assert together[3].truncated
    assert [translator.translate([line])[0].text for line in ("w1 w2 w3", "w7")] == [together[0].text, together[2].text]
    with pytest.raises(UserError, match="no such export"):
        open_translator(bundle, "ctranslate2")


def test_a_bundle_of_one_architecture_opened_as_another_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "b", "output, additive")
    path = tmp_path / "b" / "config.json"
    record = json.loads(path.read_text())

    def opened_as(**changes: object) -> None:
        path.write_text(json.dumps({**record, **changes}))
        _ = load_bundle(tmp_path / "b").network

    opened_as()
    with pytest.raises(UserError, match="architecture 'rnnenc' does not fit its model section"):
        opened_as(architecture="rnnenc")
    with pytest.raises(UserError, match="model: unknown key: 'encoder_width'"):
        opened_as(architecture="rnnenc", model={**record["model"], "architecture": "rnnenc"})
    with pytest.raises(UserError, match=r"model\.safetensors: (no|unexpected) tensor '.*' for this configuration"):
        opened_as(architecture="rnnenc", model=asdict(model_config(NETWORKS["fixed"])))
    with pytest.raises(UserError, match=r"model\.safetensors: (no|unexpected) tensor 'score\."):
        opened_as(model={**record["model"], "attention": "dot"})
    with pytest.raises(UserError, match="has shape"):
        opened_as(model={**record["model"], "cell": "lstm"})


def test_an_unknown_attention_is_refused_with_choices() -> None:
    with pytest.raises(UserError, match=r"attention: 'aditive' is not known\. Did you mean 'additive'\?"):
        model_config({**SEARCH, "attention": "aditive"})
