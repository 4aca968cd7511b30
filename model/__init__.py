"""What a model is: text, tokenizers, batches, networks, losses, decoding and the bundle. Torch and pure Python only."""
