"""What text is to a model: normalising, sentences, tokenizers, and token ids in padded batches."""
