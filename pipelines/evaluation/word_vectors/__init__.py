"""How good word vectors are: similarity sets, analogies, retrieval, pictures."""
