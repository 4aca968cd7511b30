"""Training of word vectors: shards -> segments -> rounds of training and averaging -> bundle -> registry."""
