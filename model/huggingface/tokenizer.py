"""A folder's tokenizer.json (or vocab.txt, or vocab.json and merges.txt) as a tokenizer of ours: ids in our order.

Special tokens lose their rights: a text that spells [MASK] or <|endoftext|> is a text.
"""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.huggingface.folder import Folder
from dragoman.model.huggingface.pieces import TOKENIZER, added_tokens, steps
from dragoman.model.huggingface.vocabulary import NONE, Order, our_order
from dragoman.model.text.huggingface_tokenizer import OURS, THEIRS, HuggingFaceTokenizer
from dragoman.model.text.tokenizer import SPECIAL_PIECES, UNK, canonical_json

SETTINGS, MAPPED = "tokenizer_config.json", "special_tokens_map.json"
PATTERN = re.compile(r'"Regex":("(?:[^"\\\\]|\\\\.)*")')
TRIAL = """import sys, tokenizers
library = tokenizers.Tokenizer.from_str(sys.stdin.read())
for sign in sys.argv[1]:
    library.encode(64 * sign + "!")"""
TRIAL_SECONDS, MOST_SIGNS = 20.0, 100
# role -> keys of the settings that name its token, and names that it has where no file says
ROLES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "eos": (("sep_token", "eos_token"), ("[SEP]", "</s>", "<|endoftext|>")),
    "bos": (("cls_token", "bos_token"), ("[CLS]", "<s>")),
    "mask": (("mask_token",), ("[MASK]", "<mask>")),
    "unk": (("unk_token",), ("[UNK]", "<unk>")),
    "pad": (("pad_token",), ("[PAD]", "<pad>")),
}


def read_content(folder: Folder) -> dict[str, Any]:
    """Returns the content of tokenizer.json, or the same made of the files of older folders."""
    if (folder.path / TOKENIZER).is_file():
        return folder.json(TOKENIZER)
    settings = folder.optional(SETTINGS)
    if (folder.path / "vocab.txt").is_file():
        lines = folder.file("vocab.txt").read_text(encoding="utf-8").splitlines()
        cased = {"lowercase": settings.get("do_lower_case", True), "strip_accents": settings.get("strip_accents")}
        chinese = settings.get("tokenize_chinese_chars", True)
        return {
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": chinese, **cased},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {
                "type": "WordPiece", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                "vocab": {line: number for number, line in enumerate(lines)},
            },
        }  # fmt: skip
    if not (folder.path / "merges.txt").is_file():
        folder.file(TOKENIZER)  # names the files that there are
    lines = folder.file("merges.txt").read_text(encoding="utf-8").splitlines()
    merges = [line for line in lines if line and not line.startswith("#version")]
    before = bool(settings.get("add_prefix_space", False))
    bytes_ = {"type": "ByteLevel", "add_prefix_space": before, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": folder.json("vocab.json"), "merges": merges}
    return {"normalizer": None, "pre_tokenizer": bytes_, "decoder": bytes_, "model": model}


def names_of(folder: Folder, content: Mapping[str, Any]) -> dict[int, str]:
    """Returns id -> token of a content, with the tokens beside its model's."""
    vocabulary = (content.get("model") or {}).get("vocab")
    if not isinstance(vocabulary, dict) or not all(isinstance(number, int) for number in vocabulary.values()):
        kind = (content.get("model") or {}).get("type")
        raise UserError(f"{folder.path / TOKENIZER}: {kind}; this program reads WordPiece and BPE")
    return {number: token for token, number in vocabulary.items()} | added_tokens(folder)


def special_ids(folder: Folder, names: Mapping[int, str]) -> dict[str, int]:
    """Returns role -> id of pad, unk, bos, eos and mask; NONE where there is none, or one that has a role already."""
    ids = {token: number for number, token in names.items()}
    settings = {**folder.optional(MAPPED), **folder.optional(SETTINGS)}
    id_of: dict[str, int] = {}
    for role, (keys, usual) in ROLES.items():
        said = [settings[key] for key in keys if settings.get(key)]
        tokens = [str(token["content"] if isinstance(token, dict) else token) for token in said] or list(usual)
        number = next((ids[token] for token in tokens if token in ids), NONE)
        id_of[role] = NONE if number in id_of.values() else number
    if id_of["eos"] == NONE:
        raise UserError(f"{folder.path}: the vocabulary has no end of text; {SETTINGS} names it as eos_token")
    return id_of


def read_tokenizer(folder: Folder, size: int, start: str = "bos") -> tuple[HuggingFaceTokenizer, Order, dict[str, int]]:
    """Returns a folder's tokenizer in our order of a vocabulary of `size`, the order, and `special_ids`.

    `start`: the role of the token before a text, unless config.json names a decoder's.
    """
    content = read_content(folder)
    names = names_of(folder, content)
    special = special_ids(folder, names)
    first = special[start] if start == "bos" else folder.setting("decoder_start_token_id", int, special[start])
    roles = {role: special[role] for role in ("eos", "pad", "unk", "mask")}
    order = our_order(size, start=first, **roles)
    return our_tokenizer(folder, content, names, order), order, special


def our_tokenizer(
    folder: Folder, content: Mapping[str, Any], names: Mapping[int, str], order: Order
) -> HuggingFaceTokenizer:
    """Returns the tokenizer of a content with ids in our order, of which every one has a name."""
    check_growth(folder, content)
    size = max(order.theirs) + 1
    if (highest := max(names)) >= size:
        raise UserError(f"{folder.path}: {names[highest]!r} has the id {highest}, the network {size} tokens")
    rows = [row for row in content.get("added_tokens") or [] if not row.get("special")]
    text = {token for number, token in names.items() if number in {row["id"] for row in rows}}
    text |= set(content["model"]["vocab"]) - {row["content"] for row in content.get("added_tokens") or []}
    text -= {names.get(number) for number in order.theirs[: len(SPECIAL_PIECES)]}
    numbers = {OURS + piece: number for number, piece in enumerate(SPECIAL_PIECES)}
    for number, theirs in enumerate(order.theirs[len(SPECIAL_PIECES) :], len(SPECIAL_PIECES)):
        name = names.get(theirs, f"<unused:{theirs}>")
        numbers[name if name in text else THEIRS + name] = number
    model = {**content["model"], "vocab": numbers}
    needs_unknown = order.theirs[UNK] != NONE or model["type"] == "WordPiece"
    model["unk_token"] = OURS + SPECIAL_PIECES[UNK] if needs_unknown else None
    if model["type"] == "BPE":
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        model["merges"] = [pair for pair in pairs if {*pair, "".join(pair)} <= text]
    ours = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{**row, "id": numbers[row["content"]]} for row in rows],
        "normalizer": content.get("normalizer"), "pre_tokenizer": content.get("pre_tokenizer"),
        "post_processor": None, "decoder": content.get("decoder"), "model": model,
    }  # fmt: skip
    data = canonical_json(ours)
    check_patterns(folder, data)
    return HuggingFaceTokenizer.deserialise(data, str(folder.path / TOKENIZER))


def check_growth(folder: Folder, content: Mapping[str, Any]) -> None:
    """Refuses a tokenizer that makes texts longer: some steps that double a letter would fill the memory."""
    for step in (*steps(content.get("normalizer")), *steps(content.get("decoder"))):
        pattern = step.get("pattern")
        replaced = (
            pattern.get("String", " ") if isinstance(pattern, dict) else " "
        )  # a regular expression finds a letter
        written = str(step.get("content" if step.get("type") == "Replace" else "prepend", ""))
        if step.get("type") in ("Replace", "Prepend") and len(written) > len(str(replaced)):
            raise UserError(f"{folder.path / TOKENIZER}: {step['type']} writes {written[:40]!r}, which lengthens texts")


def check_patterns(folder: Folder, data: bytes) -> None:
    """Refuses a tokenizer whose regular expressions take long on a run of one sign.

    In a process of its own: where the library gives up, its Rust code panics and writes to the standard error.
    """
    patterns = PATTERN.findall(data.decode())
    if not patterns:
        return
    signs = sorted({*"a1 ?", *filter(str.isalnum, "".join(patterns))})
    trial = [sys.executable, "-c", TRIAL, "".join(signs)[:MOST_SIGNS]]
    try:
        tried = subprocess.run(trial, input=data, capture_output=True, timeout=TRIAL_SECONDS, check=False)
        explodes = b"Regex search error" in tried.stderr
    except subprocess.TimeoutExpired:
        explodes = True
    if explodes:
        raise UserError(f"{folder.path / TOKENIZER}: the regular expression {patterns[0][:60]} takes too long")
