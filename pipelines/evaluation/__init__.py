"""How good a model is: scores of held-out texts, what alignments miss, which settings to choose."""
