"""How word vectors come to be: shards -> segments -> rounds of training and averaging -> bundle -> registry."""
