"""A SentencePiece model of given lines: the same bytes for the same lines.

BPE never looks beyond a word, so its trainer is given the words and how often each occurs: it learns the same pieces as
from the lines, in seven tenths of the time and without holding them.
"""

import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import sentencepiece

from dragoman.model.errors import UserError
from dragoman.model.text.subwords import BLOCK_TEXTS, SENTINEL, BpeTokenizer, SubwordTokenizer, UnigramTokenizer
from dragoman.model.text.tokenizer import BOS, EOS, MASK, PAD, SEP, SPECIAL_PIECES, UNK, TokenizerConfig
from dragoman.model.text.word_table import SPACE, split_words

THREADS = 4  # fixed: the unigram trainer's sums, and so its bytes, depend on the number of threads
LONGEST = 1 << 16  # bytes of a line that is trained on
RESERVED = "\u2585"  # the library's own sign for what is unknown: it trains on no line that holds one


def train_subwords(config: TokenizerConfig, lines: Sequence[str], tags: Sequence[str] = ()) -> SubwordTokenizer:
    """Trains on `lines`; the vocabulary is at most `config.vocabulary`. Each of `tags` becomes one piece."""
    by_words = config.type == "bpe" and not any("\t" in line for line in lines)  # which ends a word of such a table
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_rows(count_words(_trained_on(lines))) if by_words else iter(lines),
            input_format="tsv" if by_words else "text",
            model_writer=model,
            model_type=config.type,
            vocab_size=config.vocabulary,
            hard_vocab_limit=False,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization_rule_name="identity",
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            control_symbols=[*SPECIAL_PIECES[MASK : SEP + 1], *map(SENTINEL.format, range(config.sentinels))],
            user_defined_symbols=[f"{SPACE}{tag}" for tag in tags],
            max_sentence_length=LONGEST,
            num_threads=THREADS,
            minloglevel=3,
        )
    except RuntimeError as problem:
        needed = re.search(r"required_chars. \d+ vs (\d+)", str(problem))
        if needed is None:
            raise
        raise UserError(
            f"tokenizer.vocabulary={config.vocabulary}: the text has so many different characters that it needs "
            f"tokenizer.vocabulary={needed.group(1)} or more"
        ) from None
    trained = BpeTokenizer if config.type == "bpe" else UnigramTokenizer
    return trained(_without_format(model.getvalue()))


def count_words(lines: Sequence[str]) -> Mapping[str, int]:
    """Word -> how often it occurs, in the order in which they first do."""
    counts: Counter[str] = Counter()
    for begin in range(0, len(lines), BLOCK_TEXTS):
        words, places, _ = split_words(lines[begin : begin + BLOCK_TEXTS])
        counts.update(dict(zip(words, np.bincount(places, minlength=len(words)).tolist(), strict=True)))
    del counts[""]
    return counts


def _trained_on(lines: Sequence[str]) -> Sequence[str]:
    """The lines that the library would train on, were it given them; a character has four bytes at most."""
    return [
        line for line in lines if RESERVED not in line and (len(line) <= LONGEST // 4 or len(line.encode()) <= LONGEST)
    ]


def _rows(counts: Mapping[str, int]) -> Iterator[str]:
    return (f"{word}\t{count}" for word, count in counts.items())


def _without_format(model: bytes) -> bytes:
    """The model without a word on how its text was given: as one of lines is."""
    from sentencepiece import sentencepiece_model_pb2

    message = sentencepiece_model_pb2.ModelProto.FromString(model)
    message.trainer_spec.ClearField("input_format")
    content: bytes = message.SerializeToString()
    return content
