"""Vectors of texts: by the encoder that is served, or the mean of the word vectors of a text's known words."""

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from starlette.exceptions import HTTPException

from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.keys import Key
from dragoman.services.models.origin import Origin

Floats: TypeAlias = NDArray[np.float32]

NONE = "This endpoint makes no vectors of texts (the server's settings serve.encoder and serve.vectors name models)"


async def embed(endpoint: Endpoint, key: Key, name: str, texts: Sequence[str]) -> tuple[Floats, Origin]:
    """Returns (texts, width), and the origin of the model with this name.

    Raises HTTPException: 404 there is no such model, 400 a text without a known word, 503 the model is not loaded.
    """
    counts = []
    if endpoint.encoder is not None:
        encoder = endpoint.encoder.model()
        if encoder.origin.name == name:
            return np.stack(await endpoint.encoder.ask(encoder, texts, key=key)), encoder.origin
        counts.append(encoder.origin.name)
    if endpoint.vectors is not None:
        words = endpoint.vectors.model()
        if words.origin.name == name:
            if words.texts is None:
                raise HTTPException(400, f"The model `{name}` counts words: its vectors are as wide as the vocabulary")
            vectors = await asyncio.to_thread(words.texts, texts)
            for number, vector in enumerate(vectors):
                if not vector.any():
                    raise HTTPException(400, f"Invalid 'input': text {number} has no word that this model knows")
            return vectors, words.origin
        counts.append(words.origin.name)
    if not counts:
        raise HTTPException(404, NONE)
    raise HTTPException(404, f"The model `{name}` makes no vectors here: there are {', '.join(counts)}")
