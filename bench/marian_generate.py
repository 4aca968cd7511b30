"""The peer of `decode`: MarianMT of the given size generates; prints sentences/s. Runs in the peers' environment."""

import sys
import time

import torch
from transformers import MarianConfig, MarianMTModel


def main(words: list[str]) -> None:
    """Sizes as bench/decode.py hands them over; random weights, random sources, `length` new tokens each."""
    width, heads, feed_forward, encoder_layers, decoder_layers, vocabulary, count, batch, length, beam = map(int, words)
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=width,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=feed_forward,
        decoder_ffn_dim=feed_forward,
        max_position_embeddings=512,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
    )
    torch.manual_seed(1)
    network = MarianMTModel(config).eval()
    sources = torch.randint(6, vocabulary, (count, length))
    options = {"num_beams": beam, "min_new_tokens": length, "max_new_tokens": length, "do_sample": False}
    with torch.inference_mode():
        network.generate(sources[:2], attention_mask=torch.ones_like(sources[:2]), **options)
        began = time.perf_counter()
        for first in range(0, count, batch):
            part = sources[first : first + batch]
            made = network.generate(part, attention_mask=torch.ones_like(part), **options)
            assert made.shape[1] == length + 1  # the start token is counted
        print(count / (time.perf_counter() - began))


if __name__ == "__main__":
    main(sys.argv[1:])
