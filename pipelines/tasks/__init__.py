"""The kinds of model, a row each: what training, release, evaluation and promotion do differently for them."""
