"""An ensemble's next token is distributed as the mean of its members' distributions, whatever they are."""

import itertools
import math

import pytest
import torch

from dragoman.model.decoding.search import decode, pad
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.networks.ensemble import Ensemble
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.batch import collate
from dragoman.model.text.tokenizer import BOS, EOS

SMALL: dict[str, dict[str, int]] = {
    "transformer": {"heads": 2, "width": 8, "feed_forward": 8, "encoder_layers": 1, "decoder_layers": 1},
    "prefixlm": {"heads": 2, "width": 12, "feed_forward": 8, "layers": 2},
    "rnnsearch": {"embedding": 6, "width": 8, "encoder_width": 4, "attention_width": 5},
    "rnnenc": {"embedding": 6, "width": 5},
}
V = 11


def network(name: str, seed: int) -> TranslationNetwork:
    torch.manual_seed(seed)
    made = build_network(model_config({"architecture": name, "max_positions": 24, **SMALL[name]}), V, V).double()
    with torch.no_grad():
        made.output.weight.mul_(4)  # else every token is about as likely as every other
    return made.eval()


def ensembles() -> list[list[TranslationNetwork]]:
    alike = [network("transformer", seed) for seed in (1, 2, 3)]
    return [alike, [network(name, 4) for name in SMALL]]


@pytest.mark.parametrize("members", ensembles(), ids=["seeds", "architectures"])
def test_every_step_is_the_mean_of_the_members_probabilities(members: list[TranslationNetwork]) -> None:
    source = pad([torch.tensor(row).numpy() for row in ([6, 7, 8, EOS], [9, EOS])])
    together = Ensemble(members)
    state = together.start(together.encode(source), 5)
    alone = [one.start(one.encode(source), 5) for one in members]
    for token in (BOS, 6, 9):
        tokens = torch.full((2,), token)
        logits, state = together.step(tokens, state)
        found = [one.step(tokens, before) for one, before in zip(members, alone, strict=True)]
        alone = [after for _, after in found]
        expected = sum(each.float().softmax(-1) for each, _ in found) / len(members)
        torch.testing.assert_close(logits.exp(), expected, rtol=1e-5, atol=1e-7)
    rows = torch.tensor([1, 1, 0])
    after, _ = together.step(torch.full((3,), 7), together.reorder(state, rows))
    whole, _ = together.step(torch.full((2,), 7), state)
    torch.testing.assert_close(after, whole[rows])


def test_the_search_finds_the_likeliest_translation_of_the_mean() -> None:
    """Against an enumeration by the members' own teacher-forced probabilities."""
    members = [network("transformer", 5), network("rnnsearch", 6)]
    source = torch.tensor([6, 7, EOS]).numpy()
    config = DecodeConfig(beam=40, nbest=40, length_penalty=0.0, max_ratio=0.0, max_extra=3)
    (found,) = decode(Ensemble(members), [source], config)
    words = [token for token in range(V) if token not in config.forbidden() and token != EOS]
    totals: dict[tuple[int, ...], float] = {}
    for length in (1, 2):
        for ids in itertools.product(words, repeat=length):
            batch = collate([source], [torch.tensor([*ids, EOS]).numpy()], [0])
            with torch.no_grad():
                mean = torch.stack([one.logits(one(batch))[0].softmax(-1) for one in members]).mean(0)  # (T, V)
            mean[:, config.forbidden()] = 0.0  # what is never generated is left out before the rest is normalised
            mean[0, EOS] = 0.0  # min_length
            allowed = mean / mean.sum(-1, keepdim=True)
            totals[ids] = sum(math.log(allowed[t, token]) for t, token in enumerate((*ids, EOS)))
    ended = {one.ids: one.log_probability for one in found if one.ended}
    assert max(ended, key=lambda ids: ended[ids]) == max(totals, key=lambda ids: totals[ids])
    assert ended == pytest.approx({ids: totals[ids] for ids in ended}, abs=1e-4)


def test_one_network_twice_translates_as_it_does_alone() -> None:
    one = network("transformer", 7)
    sources = [torch.tensor(row).numpy() for row in ([6, 7, 8, 9, EOS], [10, 6, EOS], [7, EOS])]
    config = DecodeConfig(beam=3, nbest=3, length_penalty=1.0)
    alone, twice = decode(one, sources, config), decode(Ensemble([one, one]), sources, config)
    assert [[each.ids for each in found] for found in alone] == [[each.ids for each in found] for found in twice]


def test_it_reads_no_more_than_its_shortest_member_and_is_not_trained() -> None:
    members = [network("transformer", 1), network("prefixlm", 1)]
    together = Ensemble(members)
    assert (together.max_source_positions, together.max_target_positions) == (12, 12)
    with pytest.raises(TypeError, match="searched, not trained"):
        together(collate([torch.tensor([6, EOS]).numpy()], [torch.tensor([6, EOS]).numpy()], [0]))
