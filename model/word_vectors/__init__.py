"""Word vectors: how they are learned or counted, and what a person asks of them."""
