"""The pieces of a folder's tokenizer: a SentencePiece model, or the same in tokenizer.json, and tokens added later.

transformers 5 saves NLLB's tokenizer as tokenizer.json alone, whose pieces make a SentencePiece model again.
"""

import base64
from collections.abc import Iterator
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.huggingface.folder import Folder
from dragoman.model.text.word_table import SPACE

TOKENIZER, ADDED = "tokenizer.json", "added_tokens.json"
KNOWN_NORMALISERS = ("Precompiled", "Replace", "Strip")  # SentencePiece's own, and blanks


def read_pieces(folder: Folder, name: str) -> Any:
    """Returns the SentencePiece model in the file `name` as a ModelProto; without the file that of tokenizer.json."""
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2 as pb2

    if not (folder.path / name).is_file() and (folder.path / TOKENIZER).is_file():
        return from_json(folder)
    path = folder.file(name)
    try:
        model = pb2.ModelProto.FromString(path.read_bytes())
    except DecodeError as problem:
        raise UserError(f"{path}: not a SentencePiece model ({problem})") from None
    if not model.pieces or model.trainer_spec.model_type not in (pb2.TrainerSpec.UNIGRAM, pb2.TrainerSpec.BPE):
        raise UserError(f"{path}: not a SentencePiece model of BPE or unigram")
    return model


def from_json(folder: Folder) -> Any:
    """Returns the SentencePiece model that tokenizer.json was made from: the same pieces, scores and ids."""
    from sentencepiece import sentencepiece_model_pb2 as pb2

    content, where = folder.json(TOKENIZER), folder.path / TOKENIZER
    model = content.get("model") or {}
    spaces = [step for step in steps(content.get("pre_tokenizer")) if step.get("type") == "Metaspace"]
    others = [
        str(step.get("type")) for step in steps(content.get("normalizer")) if step["type"] not in KNOWN_NORMALISERS
    ]
    if model.get("type") not in ("Unigram", "BPE") or not spaces or others:
        described = ", ".join(others) or f"{model.get('type')} and {'blanks as ▁' if spaces else 'no ▁ for blanks'}"
        raise UserError(f"{where}: not made from a SentencePiece model of BPE or unigram ({described})")
    kind, unigram = pb2.ModelProto.SentencePiece, model["type"] == "Unigram"
    if unigram:
        scores = [(str(piece), float(score)) for piece, score in model["vocab"]]
        unknown = scores[int(model["unk_id"])][0]
    else:
        ranks: dict[str, float] = {}
        for rank, merge in enumerate(model["merges"]):
            ranks.setdefault("".join(merge.split(" ") if isinstance(merge, str) else merge), -float(rank))
        inner = sorted(model["vocab"], key=model["vocab"].get)
        scores = [(piece, ranks.get(piece, -float(len(ranks)))) for piece in inner]
        unknown = str(model["unk_token"])
    special = {str(row["content"]) for row in content.get("added_tokens") or [] if row.get("special")}
    proto = pb2.ModelProto()
    for piece, score in scores:
        role = kind.CONTROL if piece in special else kind.NORMAL
        if model.get("byte_fallback") and piece.startswith("<0x") and len(piece) == len("<0x00>"):
            role = kind.BYTE
        proto.pieces.append(kind(piece=piece, score=score, type=kind.UNKNOWN if piece == unknown else role))
    proto.trainer_spec.model_type = pb2.TrainerSpec.UNIGRAM if unigram else pb2.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = bool(model.get("byte_fallback"))
    proto.normalizer_spec.add_dummy_prefix = spaces[0].get("prepend_scheme", "always") != "never"
    for step in steps(content.get("normalizer")):
        if step["type"] == "Precompiled":
            proto.normalizer_spec.precompiled_charsmap = base64.b64decode(step["precompiled_charsmap"] or "")
    return proto


def steps(step: Any) -> Iterator[dict[str, Any]]:
    """Yields the parts of a normaliser or pre-tokenizer of tokenizer.json, those of sequences one by one."""
    inner = next((step[key] for key in ("normalizers", "pretokenizers", "decoders") if step and step.get(key)), None)
    if inner is not None:
        for normalizer in inner:
            yield from steps(normalizer)
    elif step:
        yield step


def before_added(folder: Folder) -> str:
    """Returns the sign in the piece of an added token: the blank before it, unless that is a piece of its own."""
    content = folder.optional(TOKENIZER)
    dropped = not content or any(step.get("type") == "WhitespaceSplit" for step in steps(content.get("pre_tokenizer")))
    return SPACE if dropped else ""


def added_tokens(folder: Folder) -> dict[int, str]:
    """Returns id -> token of those that stand beside the model's pieces: languages, and what a fine-tuning added."""
    rows = folder.optional(TOKENIZER).get("added_tokens") or []
    tokens = {int(row["id"]): str(row["content"]) for row in rows if {"id", "content"} <= row.keys()}
    config = folder.optional("tokenizer_config.json").get("added_tokens_decoder") or {}
    tokens |= {int(number): str(row["content"]) for number, row in config.items()}
    return tokens | {int(number): str(token) for token, number in folder.optional(ADDED).items()}
