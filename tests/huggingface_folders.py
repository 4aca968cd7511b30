"""Folders of transformers' own classes with random weights, and SentencePiece models of a few lines."""

import atexit
import copy
import functools
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sentencepiece
import torch

ENGLISH = [
    "A dog runs in the park.", "The small child plays with a red ball.", "Two men are sitting on a bench.",
    "The weather was cold, but they went swimming.",
]  # fmt: skip
GERMAN = [
    "Ein Hund läuft im Park.", "Das kleine Kind spielt mit einem roten Ball.", "Zwei Männer sitzen auf einer Bank.",
    "Das Wetter war kalt, aber sie gingen schwimmen.",
]  # fmt: skip
LINES = [*ENGLISH, *GERMAN]
SENTENCES = ["The dog plays in the park.", "Two red balls ☃ were cold.", "a"]


def made_once(make: Callable[..., Any]) -> Callable[..., Any]:
    """A maker of folders that makes each one once a process: training its tokenizers takes longest."""
    made: dict[str, tuple[Path, Any]] = {}

    @functools.wraps(make)
    def copied(folder: Path, *kind: Any, **changes: Any) -> Any:
        key = repr((kind, sorted(changes.items())))
        if key not in made:
            place = Path(tempfile.mkdtemp(prefix="dragoman-folder-"))
            atexit.register(shutil.rmtree, place, ignore_errors=True)
            made[key] = place / "model", make(place / "model", *kind, **changes)
        first, network = made[key]
        shutil.copytree(first, folder, dirs_exist_ok=True)
        return copy.deepcopy(network)

    return copied


def sentencepiece_model(path: Path, lines: list[str], kind: str, size: int, **settings: Any) -> list[str]:
    """Trains a model into `path`; returns its pieces in the order of their ids."""
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines * 4), model_writer=file, model_type=kind, vocab_size=size,
            hard_vocab_limit=False, minloglevel=3, **settings,
        )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(number) for number in range(model.vocab_size())]


def randomise(network: Any) -> Any:
    """Gives every weight a value far from those of a fresh network, so that each of them matters."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "embed_positions" in name:  # computed, although it is a parameter
                continue
            noise = torch.randn(parameter.shape, generator=generator) * 0.2
            parameter.copy_(noise + 1 if "norm" in name and name.endswith("weight") else noise)
    return network.eval()


SIZES = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
}  # fmt: skip


@made_once
def marian(folder: Path, languages: tuple[str, ...] = (), **changes: Any) -> Any:
    """Saves a MarianMTModel with its tokenizer's files; returns the network."""
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True)
    pieces = [
        *sentencepiece_model(folder / "source.spm", ENGLISH, "unigram", 60),
        *sentencepiece_model(folder / "target.spm", GERMAN, "unigram", 70),
    ]
    texts = sorted(dict.fromkeys(pieces[3:]) - {"<unk>": 0, "<s>": 0, "</s>": 0}.keys())
    vocabulary = ["</s>", "<unk>", *(f">>{one}<<" for one in languages), *texts, "<pad>"]
    for name in ("vocab.json", "target_vocab.json"):  # the second counts without share_encoder_decoder_embeddings
        write(folder / name, {piece: number for number, piece in enumerate(vocabulary)})
    write(folder / "tokenizer_config.json", {"source_lang": "en", "target_lang": "de"})
    pad = len(vocabulary) - 1
    config = MarianConfig(
        **{**SIZES, "activation_function": "swish", "scale_embedding": True, "vocab_size": len(vocabulary),
           "pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": None,
           **changes}
    )  # fmt: skip
    network = randomise(MarianMTModel(config))
    network.final_logits_bias.copy_(torch.randn(1, len(vocabulary), generator=torch.Generator().manual_seed(6)))
    network.save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A model\n")
    return network


@made_once
def m2m(folder: Path, **changes: Any) -> Any:
    """Saves an M2M100ForConditionalGeneration with its tokenizer's files; returns the network."""
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

    folder.mkdir(parents=True)
    pieces = sentencepiece_model(folder / "sentencepiece.bpe.model", LINES, "bpe", 120)
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:]]
    write(folder / "vocab.json", {piece: number for number, piece in enumerate(vocabulary)})
    languages = [f"__{code}__" for code in FAIRSEQ_LANGUAGE_CODES["m2m100"]]
    write(folder / "special_tokens_map.json", {"additional_special_tokens": languages})
    return save_m2m(folder, len(vocabulary) + len(languages) + 8, **changes)


@made_once
def nllb(folder: Path, **changes: Any) -> Any:
    """Saves an M2M100ForConditionalGeneration as NLLB's are: no vocab.json, codes of language and script."""
    folder.mkdir(parents=True)
    pieces = sentencepiece_model(folder / "sentencepiece.bpe.model", LINES, "bpe", 120)
    languages = ["deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant"]
    write(folder / "special_tokens_map.json", {"additional_special_tokens": languages, "mask_token": "<mask>"})
    return save_m2m(folder, len(pieces) + 1 + len(languages) + 1, **changes)


def save_m2m(folder: Path, size: int, **changes: Any) -> Any:
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    network = randomise(M2M100ForConditionalGeneration(M2M100Config(**{**SIZES, "vocab_size": size, **changes})))
    network.save_pretrained(folder)
    return network


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


def words(folder: Path, kind: str, **settings: Any) -> int:
    """Saves a tokenizer.json of WordPiece, of BPE of bytes, or of BPE as Llama's; returns its number of tokens."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    folder.mkdir(parents=True, exist_ok=True)
    special: dict[str, list[str]] = {
        "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "roberta": ["<s>", "<pad>", "</s>", "<unk>"],
        "gpt2": ["<|endoftext|>"],
        "llama": ["<unk>", "<s>", "</s>"],
    }
    trainer: Any
    if kind == "wordpiece":
        library = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        library.normalizer = normalizers.BertNormalizer(lowercase=True)
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        library.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=special[kind])
    elif kind == "llama":
        library = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        library.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
        trainer = trainers.BpeTrainer(vocab_size=380, special_tokens=[*special[kind], *byte_tokens])
    else:
        library = Tokenizer(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special[kind], initial_alphabet=alphabet)
    library.train_from_iterator(LINES * 4, trainer)
    if kind == "roberta":
        library.add_special_tokens(["<mask>"])
    content = json.loads(library.to_str())
    content["added_tokens"] = [row for row in content["added_tokens"] if not row["content"].startswith("<0x")]
    write(folder / "tokenizer.json", content)
    return library.get_vocab_size()


# model_type -> its tokenizer, its class in transformers, and settings of a small network
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
STACKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("wordpiece", "BertForMaskedLM", {**SMALL, "max_position_embeddings": 64}),
    "roberta": ("roberta", "RobertaForMaskedLM", {**SMALL, "max_position_embeddings": 66, "type_vocab_size": 1}),
    "gpt2": ("gpt2", "GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "llama": ("llama", "LlamaForCausalLM", {
        **SMALL, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}),
}  # fmt: skip


@made_once
def stack(folder: Path, kind: str, **changes: Any) -> Any:
    """Saves an encoder or a language model with its tokenizer; returns the network."""
    import transformers

    tokenizer, name, settings = STACKS[kind]
    size = words(folder, tokenizer)
    network = getattr(transformers, name)
    special = {"gpt2": {"bos_token_id": 0, "eos_token_id": 0}}.get(tokenizer, {})
    config = network.config_class(**{**settings, "vocab_size": size + 3, **special, **changes})
    made = randomise(network(config))
    made.save_pretrained(folder)
    return made


@made_once
def bart(folder: Path, **changes: Any) -> Any:
    """Saves a BartForConditionalGeneration with its tokenizer; returns the network."""
    from transformers import BartConfig, BartForConditionalGeneration

    size = words(folder, "roberta")
    made = randomise(
        BartForConditionalGeneration(
            BartConfig(**{**SIZES, "vocab_size": size + 3, "forced_eos_token_id": None, **changes})
        )
    )
    made.save_pretrained(folder)
    return made
