"""How good a language model is: the likelihood of held-out texts, and samples."""
