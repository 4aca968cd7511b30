"""Going on with a text: seeds, batches, greedy, ends, prompts of every kind, networks with and without a bound."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.model.decoding.generation import (
    NEVER,
    Generated,
    continue_prompts,
    decode_continuation,
    generate,
    read_prompt,
)
from dragoman.model.errors import UserError
from dragoman.model.networks.gpt import DecoderOnly, DecoderOnlyConfig
from dragoman.model.networks.language_network import BEFORE, LanguageNetwork
from dragoman.model.networks.network import State
from dragoman.model.networks.rnnlm import RecurrentLanguage, RecurrentLanguageConfig
from dragoman.model.settings import GenerateConfig
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import EOS, UNK, Tokenizer, TokenizerConfig
from dragoman.model.text.tokenizers import train

LINES = ["the dog sees the old man", "a house is old", "where is my friend ?", "the cat sees the house"]
PROMPTS = ["the dog", "", "a", "where is my friend ?\nthe c", "the old house sees"]


def tokenizer(kind: str = "characters") -> Tokenizer:
    return train(TokenizerConfig(type=kind, vocabulary=60, character_coverage=1.0), LINES)  # type: ignore[arg-type]


CHARACTERS = tokenizer()


def recurrent(size: int = CHARACTERS.vocabulary) -> RecurrentLanguage:
    torch.manual_seed(3)
    made = RecurrentLanguage(RecurrentLanguageConfig(cell="gru", embedding=8, width=8, layers=1), size)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.7)
    return made.eval()


class Bounded(LanguageNetwork):
    """The next token follows from the last ones, which the state holds; there are eight positions."""

    max_positions = 8

    def __init__(self, size: int) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.table = nn.Embedding(size, 6)
        self.output = nn.Linear(6, size)
        nn.init.normal_(self.output.weight, std=0.8)
        self.reads: list[int] = []

    def forward(self, batch: TextBatch) -> Tensor:
        """The sum of all tokens so far, later ones counting more."""
        return self._states(batch.inputs)

    def _states(self, tokens: Tensor) -> Tensor:
        weights = torch.arange(1, tokens.shape[1] + 1)[:, None] ** 0.5
        return (self.table(tokens) * weights).cumsum(1)  # type: ignore[no-any-return]

    def start(self, rows: int, device: torch.device) -> State:
        return {"tokens": torch.empty(rows, 0, dtype=torch.int64)}

    def read(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        seen = torch.cat([state["tokens"], tokens], 1)
        self.reads += range(state["tokens"].shape[1] + 1, seen.shape[1] + 1)
        assert seen.shape[1] <= self.max_positions
        return self.logits(self._states(seen)[:, -1]), {"tokens": seen}

    def embedding_table(self) -> nn.Embedding:
        return self.table


def bounded() -> Bounded:
    return Bounded(CHARACTERS.vocabulary).eval()


def attending() -> DecoderOnly:
    torch.manual_seed(4)
    config = DecoderOnlyConfig(width=8, heads=2, feed_forward=8, layers=1, max_positions=12)
    made = DecoderOnly(config, CHARACTERS.vocabulary)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.6)
    return made.eval()


NETWORKS = {"gru": recurrent, "bounded": bounded, "gpt": attending}


@pytest.fixture(params=sorted(NETWORKS))
def network(request: pytest.FixtureRequest) -> LanguageNetwork:
    made: LanguageNetwork = NETWORKS[request.param]()
    return made


def texts(found: Sequence[Sequence[Generated]]) -> list[list[str]]:
    return [[one.text for one in row] for row in found]


def ids_of(network: LanguageNetwork, prompt: Sequence[int], **settings: Any) -> list[int]:
    run = continue_prompts(network, [prompt], [0], GenerateConfig(**settings))
    return [token.id for tokens in run for token in tokens]


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.0}, {"top_k": 3}, {"top_p": 0.7, "lines": 2}])
def test_a_batch_equals_one_by_one(network: LanguageNetwork, settings: dict[str, Any]) -> None:
    config = GenerateConfig(max_tokens=25, samples=1 if settings.get("temperature") == 0.0 else 3, **settings)
    together = generate(network, CHARACTERS, PROMPTS, config)
    alone = [generate(network, CHARACTERS, [prompt], config)[0] for prompt in PROMPTS]
    assert texts(together) == texts(alone)
    for one, other in zip(chain(*together), chain(*alone), strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-3)
        assert (one.ended, one.tokens) == (other.ended, other.tokens)


def test_temperature_zero_takes_the_likeliest_token_each_time(network: LanguageNetwork) -> None:
    prompt = read_prompt(CHARACTERS, "the").ids
    found = ids_of(network, prompt, temperature=0.0, max_tokens=4, lines=0)
    seen = list(prompt)
    for token in found:
        batch = TextBatch(torch.tensor([seen]), torch.tensor([seen]), len(seen), np.zeros(1, np.int64))
        logits = network.logits(network(batch))[0, -1]
        logits[list(NEVER)] = -torch.inf
        assert token == int(logits.argmax())
        seen.append(token)
    assert ids_of(network, prompt, top_k=1, max_tokens=4, lines=0) == found
    assert ids_of(network, prompt, top_p=1e-9, max_tokens=4, lines=0, seed=9) == found
    assert ids_of(network, prompt, temperature=1e-6, max_tokens=4, lines=0) == found


def test_equal_seeds_give_equal_texts_and_others_other(network: LanguageNetwork) -> None:
    def run(seed: int) -> list[list[str]]:
        return texts(generate(network, CHARACTERS, ["the", "a"], GenerateConfig(seed=seed, samples=4, max_tokens=20)))

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert len(set(run(1)[0])) > 1


def test_the_log_probability_is_the_networks_own() -> None:
    network = recurrent()
    config = GenerateConfig(temperature=0.7, top_k=5, max_tokens=6)
    found = generate(network, CHARACTERS, ["the "], config)[0][0]
    prompt = list(read_prompt(CHARACTERS, "the ").ids)
    written = [*CHARACTERS.encode([found.text])[0].tolist(), *([EOS] if found.ended else [])]
    assert len(written) == found.tokens
    tokens = torch.tensor([[*prompt, *written]])
    with torch.no_grad():
        batch = TextBatch(tokens[:, :-1], tokens[:, 1:], tokens.shape[1] - 1, np.zeros(1, np.int64))
        each = torch.log_softmax(network.logits(network(batch)), -1)[0]
    places = range(len(prompt) - 1, tokens.shape[1] - 1)
    expected = sum(float(each[place, tokens[0, place + 1]]) for place in places)
    assert found.log_probability == pytest.approx(expected, abs=1e-4)


def biased(network: RecurrentLanguage, **logits: float) -> RecurrentLanguage:
    """A network that gives every id of that name this logit, whatever it has read."""
    with torch.no_grad():
        network.output.weight.data = torch.zeros_like(network.output.weight)
        network.output.bias.zero_()
        for name, value in logits.items():
            network.output.bias[{"eos": EOS, "a": int(CHARACTERS.encode(["a"])[0][0])}[name]] = value
    return network


def test_a_text_ends_at_its_last_line_or_at_the_most_tokens() -> None:
    ends = biased(recurrent(), eos=50.0)
    assert generate(ends, CHARACTERS, ["a"], GenerateConfig())[0][0] == Generated("", pytest.approx(0.0), True, 1)
    three = generate(ends, CHARACTERS, ["a"], GenerateConfig(lines=3))[0][0]
    assert (three.text, three.ended, three.tokens) == ("\n\n", True, 3)
    endless = generate(ends, CHARACTERS, ["a"], GenerateConfig(lines=0, max_tokens=4))[0][0]
    assert (endless.text, endless.ended, endless.tokens) == ("\n" * 4, False, 4)
    never = generate(biased(recurrent(), a=50.0), CHARACTERS, ["a"], GenerateConfig(max_tokens=5))[0][0]
    assert (never.text, never.ended, never.tokens) == ("aaaaa", False, 5)


def test_special_tokens_are_never_drawn(network: LanguageNetwork) -> None:
    with torch.no_grad():
        network.output.bias = nn.Parameter(torch.zeros(CHARACTERS.vocabulary))
        network.output.bias[list(NEVER)] = 100.0
    found = ids_of(network, [BEFORE], max_tokens=30, lines=0)
    assert len(found) == 30 and not set(found) & set(NEVER)
    assert not set(ids_of(network, [BEFORE], max_tokens=9, lines=0, temperature=0.0)) & set(NEVER)


def test_positions_that_are_used_up_are_read_anew_by_half() -> None:
    network = bounded()
    prompt = read_prompt(CHARACTERS, "the dog sees").ids
    found = ids_of(network, prompt, max_tokens=12, lines=0)
    assert len(found) == 12
    assert network.reads == [*range(1, 9)] * 3 + [*range(1, 5)]  # eight, then four read anew and four drawn
    # the prompt's end counts, whatever stood before it
    other = ids_of(bounded(), prompt[-8:], max_tokens=12, lines=0, temperature=0.0)
    assert ids_of(bounded(), prompt, max_tokens=12, lines=0, temperature=0.0) == other


@pytest.mark.parametrize("kind", ["characters", "words", "bpe", "unigram"])
def test_a_continuation_reads_on_from_its_prompt(kind: str) -> None:
    made = tokenizer(kind)
    prompt = read_prompt(made, "a house is old\nthe dog")
    assert prompt.ids[0] == BEFORE and prompt.ids.count(EOS) == 2
    rest = made.encode(["the dog sees the old man"])[0].tolist()[len(prompt.line) :]
    assert made.decode([[*prompt.line, *rest]]) == ["the dog sees the old man"]
    second = made.encode(["a house"])[0].tolist()
    assert decode_continuation(made, prompt, rest) == " sees the old man"
    assert decode_continuation(made, prompt, [*rest, EOS, *second]) == " sees the old man\na house"
    spaced = read_prompt(made, "the dog ")
    after = made.encode(["the dog sees the old man"])[0].tolist()[len(spaced.line) :]
    assert decode_continuation(made, spaced, after) == "sees the old man"


def test_prompts_are_read_as_the_shards_were() -> None:
    ids = read_prompt(CHARACTERS, " the\tdog \nthe").ids
    assert ids == (BEFORE, *CHARACTERS.encode(["the dog"])[0].tolist(), EOS, *CHARACTERS.encode(["the"])[0].tolist())
    assert read_prompt(CHARACTERS, "").ids == (BEFORE,)
    assert read_prompt(CHARACTERS, " ").ids == (BEFORE,)
    assert read_prompt(CHARACTERS, "the\n").ids[-1] == EOS
    assert read_prompt(CHARACTERS, "ﬁsh", "NFKC").ids == read_prompt(CHARACTERS, "fish").ids


def test_a_prompt_of_unknown_tokens_alone_has_a_continuation(network: LanguageNetwork) -> None:
    prompt = read_prompt(CHARACTERS, "ЖЖЖ")
    assert prompt.ids == (BEFORE, UNK, UNK, UNK) and prompt.unknown == 3
    found = generate(network, CHARACTERS, ["ЖЖЖ"], GenerateConfig(max_tokens=5, lines=0))[0][0]
    assert found.tokens == 5 and math.isfinite(found.log_probability) and "⁇" not in found.text


def test_many_prompts_run_in_batches_and_keep_their_order() -> None:
    network = recurrent()
    prompts = [LINES[number % 4][: number % 7] for number in range(150)]
    found = texts(generate(network, CHARACTERS, prompts, GenerateConfig(max_tokens=3)))
    assert len(found) == 150
    assert found[137] == texts(generate(network, CHARACTERS, [prompts[137]], GenerateConfig(max_tokens=3)))[0]
    assert generate(network, CHARACTERS, [], GenerateConfig()) == []


def test_a_broken_network_is_an_error() -> None:
    network = recurrent()
    with torch.no_grad():
        network.output.bias[7] = torch.nan
    with pytest.raises(FloatingPointError, match="not a number"):
        generate(network, CHARACTERS, ["a"], GenerateConfig())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -0.1}, "generate.temperature=-0.1"),
        ({"top_p": 0.0}, "generate.top_p=0.0: must be above 0 and at most 1"),
        ({"temperature": 0.0, "samples": 2}, "generate.samples: 2, but there is one likeliest text"),
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        generate(recurrent(), CHARACTERS, ["a"], GenerateConfig(**settings))
