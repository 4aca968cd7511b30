"""The states that a network keeps of a sentence before it writes (figure 2 of Sutskever et al. 2014)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.decoding.lengths import fit
from dragoman.model.decoding.search import pad
from dragoman.model.inference.translator import network_translator
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.networks.rnnenc import EncoderDecoder
from dragoman.model.word_vectors.projection import project

Floats = NDArray[np.float64]


@dataclass
class StateMap:
    """n sentences in the plane of the largest variance."""

    kind: str  # the vector that represents a sentence
    places: Floats  # (n, 2)
    explained: float  # share of the variance that the plane holds
    alike: float | None  # share of sentences whose nearest neighbour has the same meaning; None: meanings not known


def state_map(bundle: TranslationBundle, sentences: Sequence[str], meanings: Sequence[int]) -> StateMap:
    """Projects the sentences' states by PCA; finds neighbours by cosine in the full states."""
    network = bundle.network
    translator = network_translator(network, bundle.tokenizers, bundle.decode, bundle.normalisation)
    states = sentence_states(network, translator.encode(sentences))
    kind = "the decoder's first state" if isinstance(network, EncoderDecoder) else "mean of the encoder's states"
    return StateMap(
        kind,
        project(states, "pca"),
        explained_variance(states),
        nearest_alike(states, meanings) if len(set(meanings)) > 1 else None,
    )


def sentence_states(network: TranslationNetwork, sources: Sequence[NDArray[Any]]) -> Floats:
    """Returns (n, D): the decoder's initial state for a fixed context, else the mean over the real tokens."""
    cut = [fit(ids, row, network.max_source_positions, "truncate") for row, ids in enumerate(sources)]
    with torch.inference_mode():
        memory = network.encode(pad(cut).to(next(network.parameters()).device))
        if isinstance(network, EncoderDecoder):
            states = memory.states.flatten(1)  # (n, LPW)
        else:
            real = memory.real[:, :, None]
            states = (memory.states * real).sum(1) / real.sum(1)
    return states.double().cpu().numpy()


def explained_variance(states: Floats) -> float:
    """Returns the share of the variance in the first two principal directions."""
    spread = np.linalg.svd(states - states.mean(axis=0), compute_uv=False) ** 2
    return float(spread[:2].sum() / spread.sum()) if spread.sum() > 0 else 1.0


def nearest_alike(states: Floats, meanings: Sequence[int]) -> float:
    """Returns the share of sentences whose nearest other one, by cosine of centred states, has their meaning."""
    centred = states - states.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    units = centred / np.where(lengths > 0, lengths, 1.0)
    cosines = units @ units.T
    np.fill_diagonal(cosines, -np.inf)
    marks = np.asarray(meanings)
    return float((marks[cosines.argmax(axis=1)] == marks).mean())
