"""The likeliest next tokens of a text, step by step along the likeliest path."""

from typing import NamedTuple

import torch

from dragoman.model.decoding.fill_mask import MASK_WORD, Prediction, fill_masks
from dragoman.model.decoding.generation import NEVER, decode_continuation, read_prompt
from dragoman.model.errors import UserError
from dragoman.model.networks.language_network import LanguageNetwork
from dragoman.model.networks.network import Network, evaluating
from dragoman.model.text.tokenizer import EOS, Tokenizer

MASK = "[MASK]"  # a mask as papers and other programs write it; ours is MASK_WORD


class Step(NamedTuple):
    """One place of the path: the text before it, and the tokens that may follow, the likeliest first."""

    text: str
    predictions: list[Prediction]


def likely_path(
    network: LanguageNetwork, tokenizer: Tokenizer, prompt: str, best: int = 5, steps: int = 1, form: str = "NFC"
) -> list[Step]:
    """Returns the steps of the path that always takes the likeliest token; it ends early at the end of the text.

    Probabilities are the network's own; ids that are never generated are left out. Of a prompt longer than the
    network's positions only the end is read.

    Raises FloatingPointError: the network's output is not a number.
    """
    most = network.max_positions
    if most is not None and steps >= most:
        raise UserError(f"predict.steps={steps}: the network has {most} positions; choose fewer steps")
    read = read_prompt(tokenizer, prompt, form)
    ids = list(read.ids) if most is None else list(read.ids)[-(most - steps) :]
    path: list[Step] = []
    taken: list[int] = []
    with evaluating(network) as device, torch.inference_mode():
        logits, state = network.read(torch.tensor([ids], device=device), network.start(1, device))
        for number in range(steps):
            if not torch.isfinite(logits).all():
                raise FloatingPointError("the network's output is not a number")
            shares = torch.softmax(logits[0].float(), 0)
            allowed = shares.index_fill(0, torch.tensor(NEVER, device=device), -1.0)
            values, tokens = allowed.topk(min(best, len(allowed) - len(NEVER)))
            pieces = tokenizer.pieces(tokens.tolist())
            text = prompt + decode_continuation(tokenizer, read, taken)
            path.append(Step(text, list(map(Prediction, pieces, values.tolist()))))
            taken.append(int(tokens[0]))
            if taken[-1] == EOS or number == steps - 1:
                break
            logits, state = network.step(tokens[:1], state)
    return path


def has_mask(text: str) -> bool:
    """Returns True if there is a place to fill."""
    return MASK in text or MASK_WORD in text


def fill_steps(
    network: Network, tokenizer: Tokenizer, text: str, best: int = 5, form: str = "NFC"
) -> tuple[list[Step], str]:
    """Returns a step per mask, with the mask's number in its place, and the text with the likeliest tokens."""
    masked = text.replace(MASK, MASK_WORD)
    (filled,) = fill_masks(network, tokenizer, [masked], best, form)
    parts = masked.split(MASK_WORD)
    titles = [MASK.join(parts[:number]) + f"[{number}]" + MASK.join(parts[number:]) for number in range(1, len(parts))]
    return list(map(Step, titles, filled.predictions)), filled.text
