"""Text for models: normalisation, sentences, tokenizers, and token ids in padded batches."""
