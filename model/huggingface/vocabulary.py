"""Their vocabulary in our order: ids 0 to 5 mean the same in every bundle, so rows of tables and pieces move.

A SentencePiece model's ids are the places of its pieces. Rewritten in our order, with the pieces that the vocabulary
has and the segmentation does not use marked unused, it segments as before and gives our ids.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.layers.losses import NEVER
from dragoman.model.text.subwords import BpeTokenizer, SubwordTokenizer, UnigramTokenizer
from dragoman.model.text.tokenizer import BOS, EOS, MASK, PAD, SEP, SPECIAL_PIECES, UNK

NONE = -1
ROLES = re.compile(r"</?s>|<(pad|unk|mask|extra_id_\d+|madeupword\d+)>")  # of tokens that every model of a family has
UNKNOWN_PENALTY = 10.0  # SentencePiece's, below the rarest piece


@dataclass(frozen=True)
class Order:
    """Their id for each of ours (NONE: they have no such token), and those that stand twice."""

    theirs: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.theirs)

    def ours(self, theirs: int) -> int:
        """Returns our id of theirs."""
        return self.theirs.index(theirs) if theirs != self.theirs[BOS] else self._last(theirs)

    def _last(self, theirs: int) -> int:
        """Their first token of a target may be their padding or end too, which is then our id."""
        return next((i for i in (PAD, EOS, BOS) if self.theirs[i] == theirs), BOS)

    def rows(self, table: Tensor) -> Tensor:
        """table (V', D) of theirs -> (V, D) of ours; zeros for tokens that they lack."""
        places = torch.tensor(self.theirs)
        return table[places.clamp_min(0)] * (places != NONE)[:, None]

    @property
    def absent(self) -> list[int]:
        """Returns our ids that have no token of theirs, or a second time the same."""
        lacking = [number for number, theirs in enumerate(self.theirs) if theirs == NONE]
        return sorted({*lacking, *([BOS] if self._last(self.theirs[BOS]) != BOS else [])})

    def bias(self, theirs: Tensor | None = None) -> Tensor:
        """Returns the output's bias (V,) from theirs (V',) or none: a token counts once, and none that they lack."""
        places = torch.tensor(self.theirs)
        values = torch.zeros(len(self)) if theirs is None else theirs[places.clamp_min(0)].clone()
        values[self.absent] = NEVER
        return values


def our_order(size: int, *, eos: int, pad: int = NONE, unk: int = NONE, start: int = NONE, mask: int = NONE) -> Order:
    """Returns the order for a vocabulary of `size` with these special ids; `start` is read before a target.

    NONE: there is no such token.
    """
    named = {"pad": pad, "unk": unk, "eos": eos, "decoder_start": start, "mask": mask}
    for name, place in named.items():
        if place != NONE and not 0 <= place < size:
            raise UserError(f"config.json: {name}_token_id={place}: outside of the vocabulary of {size} tokens")
    several = [place for place in (pad, unk, eos) if place != NONE]
    if len(set(several)) < len(several):
        raise UserError(f"config.json: pad ({pad}), unk ({unk}) and eos ({eos}) must be three tokens")
    special = {PAD: pad, UNK: unk, BOS: start, EOS: eos, MASK: mask, SEP: NONE}
    first = [special[i] for i in range(len(special))]
    return Order((*first, *(i for i in range(size) if i not in first)))


def reordered(
    model: Any, names: Mapping[int, str], order: Order, added: Mapping[int, str], before: str
) -> tuple[SubwordTokenizer, dict[str, int]]:
    """Returns a SentencePiece model (a ModelProto) with our ids, and what is to be noted about it.

    `names`: their id -> piece. Pieces that the vocabulary lacks are not used: a word is then cut otherwise, where their
    tokenizer gives an unknown token. Ids without a name and names that are no pieces (languages) are control tokens.
    `added`: tokens beside the pieces; those of a fine-tuning are pieces with the sign `before` them.
    """
    from sentencepiece import sentencepiece_model_pb2 as pb2

    names = {**names, **added}
    if (highest := max(names, default=0)) > (last := max(order.theirs)):
        raise UserError(f"the tokenizer: {names[highest]!r} has the id {highest}, the network {last + 1} tokens")
    kinds = {pb2.TrainerSpec.UNIGRAM: UnigramTokenizer, pb2.TrainerSpec.BPE: BpeTokenizer}
    kind = pb2.ModelProto.SentencePiece
    used = (kind.NORMAL, kind.USER_DEFINED, kind.BYTE)
    known_pieces = {piece.piece: piece for piece in model.pieces if piece.type in used}
    pieces = [
        kind(piece=piece, score=0.0, type=kind.UNKNOWN if number == UNK else kind.CONTROL)
        for number, piece in enumerate(SPECIAL_PIECES)
    ]
    new = {
        number: before + text
        for number, text in added.items()
        if text not in known_pieces and not (is_language(text) or ROLES.fullmatch(text))
    }
    rarest = min((piece.score for piece in known_pieces.values()), default=0.0) - UNKNOWN_PENALTY
    taken = {*SPECIAL_PIECES, *new.values()}
    for theirs in order.theirs[len(SPECIAL_PIECES) :]:
        if theirs in new:
            pieces.append(kind(piece=new[theirs], score=0.0, type=kind.USER_DEFINED))
            continue
        name = names.get(theirs, "")
        if name in taken or not name:
            name = f"<{name.strip('<>') or 'unused'}:{theirs}>"
        own_piece = known_pieces.get(name)
        if own_piece is not None:
            pieces.append(kind(piece=name, score=own_piece.score, type=own_piece.type))
        elif len(name) == 1:  # their tokenizer looks up an unknown character among the other side's pieces
            pieces.append(kind(piece=name, score=rarest, type=kind.NORMAL))
        else:
            pieces.append(kind(piece=name, score=0.0, type=kind.CONTROL if is_control(name) else kind.UNUSED))
        taken.add(name)
    lacking = sum(1 for name in known_pieces if name not in taken)
    del model.pieces[:]
    model.pieces.extend(pieces)
    spec = model.trainer_spec
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id, spec.vocab_size = PAD, UNK, BOS, EOS, len(pieces)
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = SPECIAL_PIECES[:4]
    notes = {"pieces_without_id": lacking, "added_tokens": len(new)}
    return kinds[spec.model_type](model.SerializeToString()), {name: count for name, count in notes.items() if count}


def is_control(name: str) -> bool:
    """Returns True for tokens that are no text: <mask>, __de__, >>deu<<, deu_Latn."""
    return (name[:1], name[-1:]) == ("<", ">") or is_language(name)


def is_language(name: str) -> bool:
    """Returns True for tokens that name a language: __de__, >>deu<<, deu_Latn."""
    return name.startswith((">>", "__")) or is_language_and_script(name)


def is_language_and_script(name: str) -> bool:
    """Returns True for NLLB's codes, such as deu_Latn."""
    return len(name) == 8 and name[3] == "_" and name[:3].islower() and name[4:].istitle() and name.isascii()


def language_token(tokens: Mapping[str, int], language: str, language_name: str | None, key: str) -> int:
    """Returns the id of a language's token among `tokens`: as `language_name`, else found by the language's code."""
    from langcodes import Language

    if language_name is not None:
        if language_name not in tokens:
            raise UserError(f"{key}={language_name}: not a token of this model. Choices: {some(sorted(tokens))}")
        return tokens[language_name]
    long = Language.get(language).to_alpha3()
    codes = {language, language.split("-")[0], long}
    forms = {form for code in codes for form in (f"__{code}__", f">>{code}<<", code)}
    fitting = [token for token in tokens if token in forms] or [
        token for token in tokens if token.strip("<>_").startswith(f"{long}_")
    ]
    if len(fitting) != 1:
        raise UserError(
            f"{key}: {'several tokens stand' if fitting else 'no token stands'} for {language!r}; give one. Choices: "
            f"{some(fitting or sorted(tokens))}"
        )
    return tokens[fitting[0]]


def some(names: Sequence[str]) -> str:
    """Returns the first twelve names, and how many more there are."""
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more
