"""T5, T5 1.1, Flan-T5 and mT5 (Raffel et al. 2020, Xue et al. 2021): their weights in our Transformer.

Theirs                                          ours
no factor 1/sqrt(K) at the scores               queries that are sqrt(K) times as large
tables that are not scaled                      tables divided by sqrt(D), which `embed` multiplies by it
an output that is divided by sqrt(D) (T5 1.0)   the same table again, which is divided already
no biases                                       biases of 0
fewer heads than fill the width (mT5)           heads of zeros
"""

import math

from torch import Tensor
from torch.nn.functional import pad as pad_end

from dragoman.model.errors import UserError
from dragoman.model.huggingface.families import t5_row
from dragoman.model.huggingface.folder import CONFIG, Folder, Imported, ImportOptions, Tensors
from dragoman.model.huggingface.pieces import added_tokens, before_added, read_pieces
from dragoman.model.huggingface.vocabulary import our_order, reordered
from dragoman.model.huggingface.weights import fill, shape
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.normalise import normalise
from dragoman.model.text.subwords import SubwordTokenizer
from dragoman.model.text.tokenizer import TokenizerPair


def read_t5(folder: Folder, options: ImportOptions) -> Imported:
    """Reads a T5ForConditionalGeneration or MT5ForConditionalGeneration."""
    size = folder.setting("vocab_size", int)
    model = read_pieces(folder, "spiece.model")
    names = {number: piece.piece for number, piece in enumerate(model.pieces)}
    pad = folder.setting("pad_token_id", int, 0)
    order = our_order(
        size,
        pad=pad,
        unk=next((number for number, piece in names.items() if piece == "<unk>"), 2),
        eos=folder.setting("eos_token_id", int, 1),
        start=folder.setting("decoder_start_token_id", int, pad),
    )
    tokenizer, notes = reordered(model, names, order, added_tokens(folder), before_added(folder))
    gated = str(folder.config.get("feed_forward_proj")).startswith("gated")
    row = t5_row(("wi_0", "wi_1") if gated else ("wi",))
    config = shape(folder, row)
    tensors = widened(folder, config)
    config.source_prefix = prefix_ids(tokenizer, options.prefix)
    config.max_positions += len(config.source_prefix)
    # transformers 5 writes "tied" into every folder: whether the output layer has a matrix of its own, the file says.
    tied = "lm_head.weight" not in tensors
    tables = tensors.tables("", (size, size), config.width, shared=True, tied=tied)
    # T5 1.0 divides what the output layer reads by sqrt(D); T5 1.1, which said "not tied", and mT5 leave it as it is.
    first = folder.config["model_type"] == "t5" and folder.setting("tie_word_embeddings", bool, True)
    divided = first and folder.setting("scale_decoder_outputs", bool, True)
    config.tie = tables.tie(shared=True, scaled=divided)
    network = Transformer(config, len(order), len(order))
    scale = config.width**-0.5
    state = {
        "source_embedding.weight": order.rows(tables.source) * scale,
        "target_embedding.weight": order.rows(tables.target) * scale,
        "output.weight": order.rows(tables.output) * (scale if divided else 1.0),
        "output.bias": order.bias(),
    }
    fill(network, row, tensors, state, {})
    return Imported(network, TokenizerPair(tokenizer, tokenizer), notes)


def widened(folder: Folder, config: TransformerConfig) -> Tensors:
    """Returns the tensors with heads of zeros behind theirs and larger queries; `config` gets as many heads as fill D.

    Raises UserError: heads that are wider than the width, or do not divide it.
    """
    tensors, head = folder.tensors(), folder.setting("d_kv", int)
    width, heads = config.width, config.heads
    if width % head or head * heads > width:
        raise UserError(
            f"{folder.path / CONFIG}: {heads} heads of d_kv={head} are wider than d_model={width}, or do not divide "
            "it: such networks (T5's 3B and 11B) have no form here"
        )
    config.heads = width // head
    rows, columns = (0, 0, 0, width - heads * head), (0, width - heads * head)
    room = {"q": rows, "k": rows, "v": rows, "o": columns, "relative_attention_bias": (0, config.heads - heads)}

    def wide(name: str, tensor: Tensor) -> Tensor:
        part = name.removesuffix(".weight").rpartition(".")[2]
        if part in room and tensor.dim() == 2:
            tensor = pad_end(tensor.float(), room[part])
        return tensor * math.sqrt(head) if part == "q" else tensor

    return Tensors({name: wide(name, tensor) for name, tensor in tensors.left.items()}, tensors.where)


def prefix_ids(tokenizer: SubwordTokenizer, words: str) -> list[int]:
    """Returns the ids of the words before every source; pieces never cross the space after them."""
    return [int(number) for number in tokenizer.encode([normalise(words)])[0]] if words else []
