"""Networks of one stack, encoders and language models, from folders of transformers."""

from dataclasses import replace

import torch
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.huggingface.families import ROWS
from dragoman.model.huggingface.folder import CONFIG, Folder, Imported, ImportOptions, Tensors
from dragoman.model.huggingface.tokenizer import read_tokenizer
from dragoman.model.huggingface.vocabulary import NONE
from dragoman.model.huggingface.weights import OUTPUT, TABLE, fill, first_position, shape
from dragoman.model.networks.architectures import build_network
from dragoman.model.networks.gpt import DecoderOnlyConfig
from dragoman.model.text.tokenizer import EOS, TokenizerPair


def read_stack(folder: Folder, _options: ImportOptions) -> Imported:
    """Reads an encoder or a language model of one stack."""
    row = ROWS[folder.config["model_type"]]
    row = replace(row, first_position=first_position(folder, row))
    weights = folder.tensors()
    # a stack that was saved alone has names without the base
    tensors = Tensors({name.removeprefix(row.base): tensor for name, tensor in weights.left.items()}, weights.where)
    config = shape(folder, row, tensors)
    config.max_positions -= row.first_position  # RoBERTa's table has rows before that of the first token
    size = folder.setting("vocab_size", int, row.read["vocab_size"])
    table = tensors.take(f"{row.names['embedding'][0]}.weight", size, config.width)
    tokenizer, order, special = read_tokenizer(folder, size)
    notes: dict[str, object] = {}
    tied = folder.setting("tie_word_embeddings", bool, row.read["tie_word_embeddings"])
    last = tensors.take(row.output, size, config.width) if row.output in tensors else table if tied else None
    if last is None or (tied and not torch.equal(last, table)):
        raise UserError(
            f"{folder.path}: {CONFIG} {'ties' if tied else 'does not tie'} the tables, and {row.output} "
            f"{'differs' if tied else 'is missing'}; tie_word_embeddings={str(not tied).lower()} imports what is there"
        )
    state: dict[str, Tensor] = {TABLE: order.rows(table), OUTPUT: order.rows(last)}
    if isinstance(config, DecoderOnlyConfig):
        if special["bos"] != NONE:
            state[TABLE][EOS] = table[special["bos"]]  # ours reads an end of text before its first token
            tied = False
        config.absent = order.absent
    config.tie = tied
    network = build_network(config, len(order), len(order))
    fill(network, row, tensors, state, notes, order)
    return Imported(network, TokenizerPair(tokenizer, tokenizer), notes)
