"""What a search finds: a hypothesis and its score."""

from dataclasses import dataclass, field

from model.text.tokenizer import EOS


@dataclass(frozen=True)
class Hypothesis:
    """One translation in target ids, without the begin and the end of sentence."""

    ids: tuple[int, ...]
    score: float  # log_probability / length ** length penalty
    log_probability: float  # natural logarithm, the end of sentence's included
    ended: bool  # False: cut at the longest translation allowed
    loop_broken: bool = field(default=False, compare=False)  # found by a second search, the first went round in a word

    @property
    def length(self) -> int:
        """Tokens that the score counts: the end of sentence too."""
        return len(self.ids) + self.ended


def hypothesis(tokens: list[int], log_probability: float, alpha: float) -> Hypothesis:
    """From generated tokens, with the end of sentence where it came."""
    ended = bool(tokens) and tokens[-1] == EOS
    score = log_probability / max(1, len(tokens)) ** alpha
    return Hypothesis(tuple(tokens[:-1] if ended else tokens), score, log_probability, ended)
