"""A sentence encoder's vectors as a static table (Tulkens and van Dongen 2024, Model2Vec).

Each piece of the vocabulary is read as a text of its own. The vectors go through a principal component analysis, and
each is weighted by a / (a + p) with p the probability of its rank by Zipf's law (Arora et al. 2017, SIF). A text's
vector is then the mean over its pieces, scaled to length 1: a look-up, without a network.

Letters: V pieces, D width of the encoder, C components.
"""

import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.bundles.directory import CONFIG, WEIGHTS
from dragoman.model.bundles.labelled import LabelBundle
from dragoman.model.bundles.language import TextBundle
from dragoman.model.bundles.tokenizer_json import FILE, tokenizer_json
from dragoman.model.errors import UserError
from dragoman.model.networks.bert import TokenEncoder
from dragoman.model.text.tokenizer import EOS, SPECIAL

SIF = 1e-4  # a
AT_ONCE = 1024  # pieces


def write_static_table(folder: Path, bundle: object, components: int) -> None:
    """Writes what `model2vec.StaticModel.from_pretrained` reads; `components`: C, 0 for as many as there are.

    Raises UserError: not an encoder, a tokenizer without subwords, or more components than numbers in a vector.
    """
    from safetensors.numpy import save_file

    if not isinstance(bundle, TextBundle | LabelBundle) or not isinstance(bundle.network, TokenEncoder):
        raise UserError("model2vec: only encoders are distilled: masked models and labels' Transformers")
    tokenizer = tokenizer_json(bundle.tokenizer, bundle.normalisation, after=(), special=False)
    vocabulary = bundle.tokenizer.vocabulary
    most = min(bundle.config.width, vocabulary - len(SPECIAL))
    if components > most:
        raise UserError(f"export.components={components}: the encoder's vectors have {most} at most; 0: all")
    table = static_table(bundle.network, vocabulary, components or most)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(tokenizer, encoding="utf-8")
    save_file({"embeddings": table}, folder / WEIGHTS)
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "apply_pca": table.shape[1],
        "sif_coefficient": SIF,
        "hidden_dim": table.shape[1],
        "normalize": True,
        "max_length": bundle.config.max_positions,
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def static_table(network: TokenEncoder, vocabulary: int, components: int) -> NDArray[np.float32]:
    """Returns (V, C); special ids have zeros."""
    from sklearn.decomposition import PCA

    pieces = torch.arange(len(SPECIAL), vocabulary)
    with torch.inference_mode():
        texts = torch.stack([pieces, torch.full_like(pieces, EOS)], 1)  # (V - 6, 2)
        vectors_made = torch.cat([network.sentence(part) for part in torch.split(texts, AT_ONCE)]).float().numpy()
    if not np.isfinite(vectors_made).all():
        raise FloatingPointError("model2vec: the network's output is not a number")
    reduced = PCA(components, svd_solver="full").fit_transform(vectors_made.astype(np.float64))
    zipf = 1.0 / np.arange(2, len(vectors_made) + 2)
    weights = SIF / (SIF + zipf / zipf.sum())
    table = np.zeros((vocabulary, components), np.float32)
    table[len(SPECIAL) :] = reduced * weights[:, None]
    return table
