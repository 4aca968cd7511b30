"""The result of a search: a hypothesis and its score."""

from dataclasses import dataclass, field

from dragoman.model.text.tokenizer import EOS


@dataclass(frozen=True)
class Hypothesis:
    """One translation as target ids, without the begin and the end of sentence."""

    ids: tuple[int, ...]
    score: float  # log_probability / length ** length penalty
    log_probability: float  # natural logarithm, with the end of sentence
    ended: bool  # False: cut at the maximum length
    loop_broken: bool = field(default=False, compare=False)  # from a second search; the first repeated a word

    @property
    def length(self) -> int:
        """Returns the number of tokens that the score counts, with the end of sentence."""
        return len(self.ids) + self.ended


def hypothesis(tokens: list[int], log_probability: float, alpha: float) -> Hypothesis:
    """Makes a hypothesis from generated tokens, which may include the end of sentence."""
    ended = bool(tokens) and tokens[-1] == EOS
    score = log_probability / max(1, len(tokens)) ** alpha
    return Hypothesis(tuple(tokens[:-1] if ended else tokens), score, log_probability, ended)
