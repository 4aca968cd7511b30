"""A tokenizer of ours as `tokenizer.json`, the file that Hugging Face's libraries read.

The file holds the ids of `Tokenizer.encode` for every text, with two exceptions. Joiners and marks of emoji stay where
they are (`model/text/normalise.py` removes those without a meaning), and a text that spells `</s>` gets
the special id, as is the custom there.
"""

import json
from itertools import chain
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.text.huggingface_tokenizer import OURS, HuggingFaceTokenizer
from dragoman.model.text.subwords import SubwordTokenizer
from dragoman.model.text.tokenizer import EOS, SPECIAL_PIECES, UNK, Tokenizer
from dragoman.model.text.word_table import SPACE

FILE = "tokenizer.json"
# What `normalise` removes everywhere: controls, soft hyphens, marks of direction, byte order marks.
INVISIBLE = (
    r"[\x{00}-\x{08}\x{0E}-\x{1B}\x{7F}-\x{84}\x{86}-\x{9F}\x{AD}\x{061C}\x{180E}\x{200E}\x{200F}\x{202A}-\x{202E}"
    r"\x{2060}-\x{2064}\x{2066}-\x{206F}\x{FEFF}\x{FFF9}-\x{FFFB}]"
)
BLANKS = r"[\x{09}-\x{0D}\x{1C}-\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]+"


def tokenizer_json(
    tokenizer: Tokenizer, normalisation: str = "NFC", *, before: tuple[int, ...] = (), after: tuple[int, ...] = (EOS,)
) -> str:
    """Returns the content of the file; `before` and `after`: the special ids around a text."""
    if isinstance(tokenizer, HuggingFaceTokenizer):
        content = their_content(tokenizer)
        tokens = [added_token(number) for number in range(len(SPECIAL_PIECES))]
        content["added_tokens"] = [*tokens, *content["added_tokens"]]
        return json.dumps({**content, "post_processor": surround(before, after)}, ensure_ascii=False, indent=1) + "\n"
    if not isinstance(tokenizer, SubwordTokenizer):
        raise UserError(
            f"tokenizer.type={tokenizer.type}: {FILE} cannot hold its rules; train with tokenizer=bpe or "
            "tokenizer=unigram"
        )
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(number) for number in range(len(SPECIAL_PIECES))],
        "normalizer": {"type": "Sequence", "normalizers": normalizers(normalisation)},
        "pre_tokenizer": {
            "type": "Split", "pattern": {"String": SPACE}, "behavior": "MergedWithNext", "invert": False
        },
        "post_processor": surround(before, after),
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": bpe(tokenizer) if tokenizer.type == "bpe" else unigram(tokenizer),
    }  # fmt: skip
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def their_content(tokenizer: HuggingFaceTokenizer) -> dict[str, Any]:
    """Returns the content of an imported tokenizer, with the special pieces under their plain names."""
    content: dict[str, Any] = json.loads(tokenizer.serialise())
    model = content["model"]
    plain = {name: name.removeprefix(OURS) for name in model["vocab"]}
    model["vocab"] = {plain[name]: number for name, number in model["vocab"].items()}
    if model.get("unk_token"):
        model["unk_token"] = plain[model["unk_token"]]
    return content


def tokenizer_settings(positions: int | None) -> dict[str, Any]:
    """Returns the content of `tokenizer_config.json` beside it; `positions`: the most tokens of a text."""
    names = ("pad", "unk", "bos", "eos", "mask", "sep")
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        **({} if positions is None else {"model_max_length": positions}),
        **{f"{name}_token": piece for name, piece in zip(names, SPECIAL_PIECES, strict=True)},
    }


def added_token(number: int) -> dict[str, Any]:
    """Returns the entry of a special id."""
    return {
        "id": number,
        "content": SPECIAL_PIECES[number],
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def normalizers(form: str) -> list[dict[str, Any]]:
    """Returns the steps of `model/text/normalise.py`, and SentencePiece's sign for a space."""
    return [
        {"type": "Replace", "pattern": {"Regex": INVISIBLE}, "content": ""},
        {"type": form},
        {"type": "Replace", "pattern": {"Regex": BLANKS}, "content": " "},
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Prepend", "prepend": SPACE},
        {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
    ]


def surround(before: tuple[int, ...], after: tuple[int, ...]) -> dict[str, Any]:
    """Returns the step that puts special ids around a text."""

    def tokens(numbers: tuple[int, ...]) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": SPECIAL_PIECES[number], "type_id": 0}} for number in numbers]

    def sequence(name: str) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": 0}}

    single = [*tokens(before), sequence("A"), *tokens(after)]
    used = {
        SPECIAL_PIECES[number]: {"id": SPECIAL_PIECES[number], "ids": [number], "tokens": [SPECIAL_PIECES[number]]}
        for number in sorted({*before, *after})
    }
    pair = [*single, sequence("B"), *tokens(after)]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": used}


def bpe(tokenizer: SubwordTokenizer) -> dict[str, Any]:
    """Returns the model of a BPE tokenizer; SentencePiece merges the pair whose piece comes first in its vocabulary."""
    pieces = tokenizer.pieces(range(tokenizer.vocabulary))
    ids = {piece: number for number, piece in enumerate(pieces)}
    usable = {piece for piece in pieces if is_merged(tokenizer, ids[piece])}
    ordered = sorted(usable, key=lambda piece: -tokenizer.processor.get_score(ids[piece]))
    merges = chain.from_iterable(
        ([piece[:cut], piece[cut:]] for cut in range(1, len(piece)) if piece[:cut] in usable and piece[cut:] in usable)
        for piece in ordered
    )
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": SPECIAL_PIECES[UNK],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": has_bytes(tokenizer),
        "ignore_merges": False,
        "vocab": ids,
        "merges": list(merges),
    }


def unigram(tokenizer: SubwordTokenizer) -> dict[str, Any]:
    """Returns the model of a unigram tokenizer; special pieces and bytes get a score at which no text has them."""
    model = tokenizer.processor
    scores = [model.get_score(number) for number in range(tokenizer.vocabulary)]
    lowest = min(score for number, score in enumerate(scores) if is_merged(tokenizer, number))
    return {
        "type": "Unigram",
        "unk_id": UNK,
        "vocab": [
            [piece, scores[number] if is_merged(tokenizer, number) else lowest]
            for number, piece in enumerate(tokenizer.pieces(range(tokenizer.vocabulary)))
        ],
        "byte_fallback": has_bytes(tokenizer),
    }


def is_merged(tokenizer: SubwordTokenizer, number: int) -> bool:
    """Returns True for a piece of text: neither special nor a byte."""
    return number >= len(SPECIAL_PIECES) and not tokenizer.processor.is_byte(number)


def has_bytes(tokenizer: SubwordTokenizer) -> bool:
    """Returns True if unknown characters become bytes."""
    return any(tokenizer.processor.is_byte(number) for number in range(tokenizer.vocabulary))
