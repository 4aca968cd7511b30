"""Samples for readers: continuations of a language model or predictions of a masked one, beside the real text."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.model.decoding.generation import generate
from dragoman.model.networks.language_network import LanguageNetwork
from dragoman.model.settings import GenerateConfig
from dragoman.model.text.tokenizer import Tokenizer

PROMPT_WORDS = 6
PROMPT_CHARACTERS = 24  # least length of a prompt: shorter records give too little context
TOKENS = {"characters": 240}  # tokens of a continuation, by kind of tokenizer
WORDS = 60  # tokens for other kinds


@dataclass
class TextSample:
    """One sample text."""

    prompt: str  # the given beginning, or the text with its masks
    text: str  # the continuation, or the filled text
    truth: str = ""  # the real text


def continuations(
    network: LanguageNetwork, tokenizer: Tokenizer, texts: Sequence[str], count: int, form: str
) -> list[TextSample]:
    """Continues the beginnings of `count` held-out records, evenly spread; the first starts from nothing."""
    if not count:
        return []
    long = [text for text in texts if len(text) >= PROMPT_CHARACTERS and len(text.split()) > PROMPT_WORDS]
    long = long or list(texts)
    rows = [round(number * (len(long) - 1) / max(1, count - 2)) for number in range(count - 1)]
    records = [long[row] for row in rows]
    prompts = ["", *(" ".join(record.split()[:PROMPT_WORDS]) for record in records)]
    config = GenerateConfig(temperature=0.8, max_tokens=TOKENS.get(tokenizer.type, WORDS), lines=0)
    generated = generate(network, tokenizer, prompts, config, form)
    truths = ["", *(record.removeprefix(prompt) for record, prompt in zip(records, prompts[1:], strict=True))]
    return [
        TextSample(prompt, first.text, truth)
        for prompt, (first, *_), truth in zip(prompts, generated, truths, strict=True)
    ]


def sample_rows(names: Sequence[str], samples: Sequence[TextSample]) -> tuple[Sequence[str], list[list[str]]]:
    """Returns a table of samples: the names of its columns, and the rows."""
    return names, [[sample.prompt, sample.text, sample.truth] for sample in samples]
