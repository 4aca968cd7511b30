"""Imported encoders and language models against transformers' own classes with the same random weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.decoding.fill_mask import fill_masks, masked_ids
from dragoman.model.errors import UserError
from dragoman.model.huggingface.families import ROWS
from dragoman.model.huggingface.folder import Folder, Imported, ImportOptions
from dragoman.model.huggingface.read import read_model, save_imported
from dragoman.model.huggingface.write import write_huggingface
from dragoman.model.inference.sentence_vectors import network_vectors
from dragoman.model.networks.bert import EncoderOnlyConfig
from dragoman.model.networks.network import Network
from dragoman.model.text.huggingface_tokenizer import HuggingFaceTokenizer
from dragoman.model.text.labels import encode_words
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import EOS, MASK, PAD, UNK
from tests import huggingface_folders as folders

transformers = pytest.importorskip("transformers")
OPTIONS = ImportOptions("en", "en")
TEXTS = [*folders.SENTENCES, *folders.GERMAN]
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{kind: (kind, {}) for kind in folders.STACKS},
    "bert of two tables": ("bert", {"tie_word_embeddings": False}),
    "roberta of another padding": ("roberta", {"pad_token_id": 3}),
    "roberta with coarse norms": ("roberta", {"layer_norm_eps": 1e-2}),
    "gpt2 relu": ("gpt2", {"activation_function": "relu", "n_inner": 40}),
    "llama with biases": ("llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "llama of other angles": ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
}
BEFORE = {"wordpiece": "[CLS]", "roberta": "<s>", "gpt2": "<|endoftext|>", "llama": "<s>"}
AFTER = {"wordpiece": "[SEP]", "roberta": "</s>"}


def imported_from(folder: Path) -> Imported:
    found = read_model(Folder(folder), OPTIONS)
    found.network.eval()
    return found


def library(folder: Path) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def our_logits(network: Network, ids: list[int]) -> torch.Tensor:
    rows = torch.tensor([ids])
    with torch.no_grad():
        found: torch.Tensor = network.logits(network(TextBatch(rows, rows, 0, np.arange(1))))[0]
    return found


@pytest.mark.parametrize("case", CASES)
def test_pieces_and_probabilities_are_those_of_transformers(case: str, tmp_path: Path) -> None:
    kind, changes = CASES[case]
    theirs = folders.stack(tmp_path, kind, **changes)
    imported, read = imported_from(tmp_path), library(tmp_path)
    ours, named = imported.tokenizers.source, folders.STACKS[kind][0]
    masked = isinstance(imported.config, EncoderOnlyConfig)
    before = [read.token_to_id(BEFORE[named])]
    for text in TEXTS:
        asked = read.encode(text, add_special_tokens=False).ids
        mine = ours.encode([text])[0].tolist()
        places = dict(zip(mine, asked, strict=True))
        row = [*before, *asked, *([read.token_to_id(AFTER[named])] if masked else [])]
        with torch.no_grad():
            expected = theirs(torch.tensor([row])).logits[0].log_softmax(-1)
        found = our_logits(imported.network, [*mine, EOS] if masked else [EOS, *mine]).log_softmax(-1)
        wanted = expected[1:] if masked else expected
        assert torch.allclose(found[:, list(places)], wanted[:, list(places.values())], atol=1e-4, rtol=0)
        assert UNK in mine or ours.decode([mine]) == [read.decode(asked)]
    assert found[:, PAD].exp().max() == 0 or masked


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama"])
def test_a_model_is_given_back_with_the_same_logits(kind: str, tmp_path: Path) -> None:
    folders.stack(tmp_path / "model", kind)
    folder = Folder(tmp_path / "model")
    save_imported(tmp_path / "bundle", read_model(folder, OPTIONS), folder, "en", {})
    bundle = load_text_bundle(tmp_path / "bundle")
    write_huggingface(tmp_path / "given", bundle)
    opener = transformers.AutoModelForMaskedLM if kind == "bert" else transformers.AutoModelForCausalLM
    theirs = opener.from_pretrained(tmp_path / "given").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "given")
    assert theirs.config.model_type == kind
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            expected = theirs(ids).logits[0]
        if kind == "bert":
            ids, expected = ids[:, 1:], expected[1:]
        found = our_logits(bundle.network, ids[0].tolist())
        assert torch.allclose(found[:, 6:], expected[:, 6:], atol=1e-4, rtol=0)
        own = bundle.tokenizer.encode([text])[0].tolist()
        assert ids[0].tolist() == ([*own, EOS] if kind == "bert" else [EOS, *own])
    again = imported_from(tmp_path / "given").network.state_dict()
    for tensor_name, tensor in bundle.network.state_dict().items():
        if not tensor_name.startswith(("embedding", "output")):
            assert torch.allclose(tensor, again[tensor_name], atol=1e-6), tensor_name


@pytest.mark.parametrize(
    ("kind", "text"), [("bert", "A dog [MASK] in the park."), ("roberta", "A dog<mask> in the park.")]
)
def test_masks_are_filled_as_transformers_fills_them(kind: str, text: str, tmp_path: Path) -> None:
    theirs, read = folders.stack(tmp_path, kind), library(tmp_path)
    special = [read.token_to_id(row.content) for row in read.get_added_tokens_decoder().values()]
    (mask,) = [number for number in special if "mask" in read.id_to_token(number).lower()]
    named = folders.STACKS[kind][0]
    asked = read.encode(text, add_special_tokens=False).ids
    with torch.no_grad():
        row = [read.token_to_id(BEFORE[named]), *asked, read.token_to_id(AFTER[named])]
        expected = theirs(torch.tensor([row])).logits[0, row.index(mask)]
    expected[special] = -torch.inf
    imported = imported_from(tmp_path)
    tokenizer = imported.tokenizers.source
    assert len(masked_ids(tokenizer, "A dog <mask> in the park.")) == len(asked) + 1
    (filled,) = fill_masks(imported.network, tokenizer, ["A dog <mask> in the park."], best=3)
    found = [prediction.probability for prediction in filled.predictions[0]]
    assert found == pytest.approx(expected.softmax(0).topk(3).values.tolist(), abs=1e-5)


def test_vectors_are_means_over_all_tokens(tmp_path: Path) -> None:
    theirs = folders.stack(tmp_path / "model", "bert")
    folder = Folder(tmp_path / "model")
    save_imported(tmp_path / "bundle", read_model(folder, OPTIONS), folder, "en", {})
    read = library(tmp_path / "model")
    row = [2, *read.encode("The dog plays.", add_special_tokens=False).ids, 3]
    with torch.no_grad():
        states = theirs.bert(torch.tensor([row])).last_hidden_state[0]
    vectors = network_vectors(load_text_bundle(tmp_path / "bundle"))
    assert np.allclose(vectors(["The dog plays."])[0], states.mean(0).numpy(), atol=1e-5)
    (tokens,) = vectors.tokens(["The dog plays."])
    assert np.allclose(tokens.vectors, states[1:-1].numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_older_folders_have_a_file_of_words_alone(kind: str, tmp_path: Path) -> None:
    folders.stack(tmp_path, kind)
    expected = imported_from(tmp_path).tokenizers.source
    model = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    words = sorted(model["vocab"], key=model["vocab"].get)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"tokenizer.json is missing. Files: config.json"):
        imported_from(tmp_path)
    if kind == "bert":
        (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    else:
        folders.write(tmp_path / "vocab.json", model["vocab"])
        merges = [" ".join(merge) for merge in model["merges"]]
        (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    found = imported_from(tmp_path).tokenizers.source
    assert [row.tolist() for row in found.encode(TEXTS)] == [row.tolist() for row in expected.encode(TEXTS)]


def test_a_stack_saved_alone_is_read_and_says_what_it_lacks(tmp_path: Path) -> None:
    theirs = folders.stack(tmp_path / "whole", "bert")
    theirs.bert.save_pretrained(tmp_path / "stack")
    (tmp_path / "whole" / "tokenizer.json").rename(tmp_path / "stack" / "tokenizer.json")
    imported = imported_from(tmp_path / "stack")
    assert imported.notes == {"head": "not in the folder"}
    ids = torch.tensor([[9, 8, EOS]])
    with torch.no_grad():
        assert imported.network.encode(ids).isfinite().all()


def test_texts_that_spell_special_tokens_are_texts(tmp_path: Path) -> None:
    for kind, text in (("bert", "a [MASK] b"), ("gpt2", "a <|endoftext|> b"), ("llama", "a </s> b")):
        folders.stack(tmp_path / kind, kind)
        tokenizer = imported_from(tmp_path / kind).tokenizers.source
        (ids,) = tokenizer.encode([text])
        assert len(ids) > 5 and not set(ids.tolist()) & {EOS, MASK}


def test_words_are_encoded_as_inside_of_a_text(tmp_path: Path) -> None:
    folders.stack(tmp_path, "roberta")
    tokenizer = imported_from(tmp_path).tokenizers.source
    ((ids, starts),) = encode_words(tokenizer, [["The", "dog", "plays"]])
    assert ids.tolist() == tokenizer.encode([" The dog plays"])[0].tolist() and len(starts) == 3
    assert all(piece.startswith("▁") for piece in tokenizer.pieces(ids[starts]))


def change(folder: Path, **settings: object) -> None:
    content = json.loads((folder / "config.json").read_text())
    folders.write(folder / "config.json", content | settings)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("bert", {"hidden_act": "relu"}, r"hidden_act='relu': ours has 'gelu'"),
        ("bert", {"num_hidden_layers": 3}, r"num_hidden_layers=3: the weights have 2 layers"),
        ("bert", {"intermediate_size": 10**13}, r"intermediate_size=10{13}: the weights have 48 rows in its layers"),
        ("bert", {"max_position_embeddings": 10**12}, r"max_position_embeddings=10{12}: the weights have 64 positions"),
        ("bert", {"vocab_size": 90}, r"tensor 'embeddings.word_embeddings.weight' has shape"),
        ("bert", {"quantization_config": {"bits": 4}}, r"quantization_config=.*: what this key changes in bert"),
        ("llama", {"pretraining_tp": 2}, r"pretraining_tp=2: ours has 1"),
        ("gpt2", {"activation_function": "mish"}, r"activation_function='mish' is not known. Choices: relu"),
        ("gpt2", {"n_embd": "big"}, r"n_embd='big': must be of the type int"),
        ("gpt2", {"tie_word_embeddings": False}, r"does not tie the tables, and lm_head.weight is missing"),
        ("llama", {"head_dim": 16}, r"head_dim=16: 4 heads of it are not hidden_size=32"),
        ("llama", {"rope_parameters": {"rope_type": "llama3"}}, r"rope_type='llama3': ours turns by 'default'"),
    ],
)
def test_what_our_network_has_not_is_named(kind: str, settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    folders.stack(tmp_path, kind)
    change(tmp_path, **settings)
    with pytest.raises(UserError, match=message):
        imported_from(tmp_path)


def test_a_tokenizer_of_another_kind_is_named(tmp_path: Path) -> None:
    folders.stack(tmp_path, "llama")
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    folders.write(tmp_path / "tokenizer.json", content | {"normalizer": None})
    with pytest.raises(UserError, match=r"not a tokenizer of Hugging Face's library \(BPE; this program reads"):
        imported_from(tmp_path)


def test_a_tokenizer_that_lengthens_texts_is_refused(tmp_path: Path) -> None:
    folders.stack(tmp_path, "bert")
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    steps = [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 36
    folders.write(tmp_path / "tokenizer.json", content | {"normalizer": {"type": "Sequence", "normalizers": steps}})
    with pytest.raises(UserError, match=r"tokenizer.json: Replace writes 'aa', which lengthens texts"):
        imported_from(tmp_path)


EXPLODING = {"type": "Split", "pattern": {"Regex": "(?:a|aa|a?a)+b"}, "behavior": "Isolated", "invert": False}


def test_a_regular_expression_that_explodes_is_refused(tmp_path: Path) -> None:
    folders.stack(tmp_path, "bert")
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    folders.write(tmp_path / "tokenizer.json", content | {"pre_tokenizer": EXPLODING})
    with pytest.raises(
        UserError, match=r'tokenizer.json: the regular expression "\(\?:a\|aa\|a\?a\)\+b" takes too long'
    ):
        imported_from(tmp_path)


def test_a_text_that_the_library_gives_up_on_is_a_users_mistake(tmp_path: Path) -> None:
    folders.stack(tmp_path, "bert")
    sound = imported_from(tmp_path).tokenizers.source
    assert isinstance(sound, HuggingFaceTokenizer)
    content = json.loads(sound.data) | {"pre_tokenizer": EXPLODING}
    with pytest.raises(UserError, match="cannot read such a text"):
        HuggingFaceTokenizer(json.dumps(content).encode()).encode(["a" * 64 + "!"])


def test_every_row_is_tried() -> None:
    assert folders.STACKS.keys() == ROWS.keys()
