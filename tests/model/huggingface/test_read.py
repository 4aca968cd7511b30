"""Imported models against transformers' own classes with the same random weights."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.huggingface.families import ABOUT, BART, M2M, MARIAN, ROWS, Row
from dragoman.model.huggingface.folder import Folder, Imported, ImportOptions
from dragoman.model.huggingface.generation import KEYS, decoding, not_followed
from dragoman.model.huggingface.read import read_model, save_imported
from dragoman.model.huggingface.vocabulary import NONE, our_order
from dragoman.model.inference.translator import open_translator
from dragoman.model.networks.network import translation_loss
from dragoman.model.settings import DecodeConfig, LossConfig
from dragoman.model.text.batch import collate
from dragoman.model.text.tokenizer import BOS, EOS, PAD, UNK
from tests import huggingface_folders as folders

transformers = pytest.importorskip("transformers")
OPTIONS = ImportOptions("en", "de")
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "marian": (folders.marian, {}),
    "marian of many languages": (folders.marian, {"languages": ("fra", "deu")}),
    "marian of three tables": (folders.marian, {"tie_word_embeddings": False}),
    "marian of a table a side": (folders.marian, {"share_encoder_decoder_embeddings": False}),
    "m2m": (folders.m2m, {}),
    "m2m of another padding": (folders.m2m, {"pad_token_id": 0}),
    "nllb": (folders.nllb, {}),
    "bart": (folders.bart, {}),
    "bart with scale": (folders.bart, {"scale_embedding": True, "activation_function": "relu"}),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Imported, Path]:
    make, changes = CASES[request.param]
    theirs = make(tmp_path / "model", **changes)
    return theirs, read_model(Folder(tmp_path / "model"), OPTIONS), tmp_path / "model"


def their_places(imported: Imported, theirs: Any, folder: Path) -> list[int]:
    """Returns our id of each of their ids."""
    size, config = theirs.config.vocab_size, theirs.config
    unk = {"marian": 1, "m2m_100": 3, "bart": 3}[config.model_type]
    nllb = config.model_type == "m2m_100" and not (folder / "vocab.json").is_file()
    mask = size - 1 if nllb else size - 4 if config.model_type == "bart" else NONE
    order = our_order(
        size, pad=config.pad_token_id, unk=unk, eos=config.eos_token_id, start=config.decoder_start_token_id, mask=mask
    )
    return [order.ours(one) for one in range(size)]


def inputs(theirs: Any, ours: list[int], imported: Imported) -> tuple[Any, dict[str, torch.Tensor]]:
    """Returns a random batch in our ids, and the same in theirs with what they put before sources and targets."""
    config = theirs.config
    theirs_of = {our: their for their, our in enumerate(ours)}
    rng = np.random.default_rng(3)
    plain = [one for one in range(6, len(ours) - 6) if one in theirs_of]
    rows = [[rng.choice(plain, n).tolist() for n in lengths] for lengths in ((5, 9, 1), (7, 3, 4))]
    batch = collate(*([np.array([*row, EOS]) for row in side] for side in rows), [0, 1, 2])
    before = [theirs_of[one] for one in imported.config.source_prefix]
    begin = [config.decoder_start_token_id, *(theirs_of[one] for one in imported.config.target_prefix)]
    source = [[*before, *(theirs_of[one] for one in row), config.eos_token_id] for row in rows[0]]
    target = [[*begin, *(theirs_of[one] for one in row)] for row in rows[1]]
    pad = config.pad_token_id

    def padded(side: list[list[int]]) -> torch.Tensor:
        longest = max(map(len, side))
        return torch.tensor([row + [pad] * (longest - len(row)) for row in side])

    lengths = torch.tensor([len(row) for row in source])[:, None]
    ids = padded(source)
    mask = (torch.arange(ids.shape[1])[None] < lengths).long()
    return batch, {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": padded(target)}


def test_logits_are_those_of_transformers(case: tuple[Any, Imported, Path]) -> None:
    theirs, imported, folder = case
    ours = their_places(imported, theirs, folder)
    batch, asked = inputs(theirs, ours, imported)
    network = imported.network.eval()
    with torch.no_grad():
        expected = theirs(**asked).logits[:, len(imported.config.target_prefix) :]
        found = network.logits(network(batch))
    real = batch.target_out != PAD
    assert torch.allclose(found[..., ours][real], expected[real], atol=1e-4, rtol=0)
    lacking = sorted(set(range(found.shape[-1])) - set(ours))
    assert float(found.softmax(-1)[..., lacking].max()) == 0.0, "tokens that they have not have no probability"


def test_greedy_translations_are_theirs_token_for_token(case: tuple[Any, Imported, Path], tmp_path: Path) -> None:
    theirs, imported, folder = case
    save_imported(tmp_path / "bundle", imported, Folder(folder), "en-de", {"source": "here"})
    bundle = load_bundle(tmp_path / "bundle")
    ours = their_places(imported, theirs, folder)
    theirs_of = {our: their for their, our in enumerate(ours)}
    config, network = theirs.config, imported.config
    never = [one for one, our in enumerate(ours) if our in (PAD, UNK)]
    begin = [config.decoder_start_token_id, *(theirs_of[one] for one in network.target_prefix)]
    for engine in ("torch", "ctranslate2"):
        translator = open_translator(bundle, engine)  # type: ignore[arg-type]  # one of its literals
        decode = DecodeConfig(beam=1, max_ratio=0.0, max_extra=12)
        answers = translator.translate(folders.SENTENCES, decode)
        for sentence, answer in zip(folders.SENTENCES, answers, strict=True):
            (ids,) = translator.encode([sentence])
            asked = torch.tensor([[theirs_of[int(one)] for one in (*network.source_prefix, *ids)]])
            with torch.no_grad():
                found = theirs.generate(
                    asked, decoder_input_ids=torch.tensor([begin]), max_new_tokens=12, num_beams=1, use_cache=False,
                    suppress_tokens=never, begin_suppress_tokens=[config.eos_token_id],
                )[0].tolist()[len(begin) :]  # fmt: skip
            tokens = [ours[one] for one in found if one != config.eos_token_id]
            assert list(answer.nbest[0].ids) == tokens


def test_weights_train_and_their_gradients_are_finite(case: tuple[Any, Imported, Path]) -> None:
    theirs, imported, folder = case
    batch, _ = inputs(theirs, their_places(imported, theirs, folder), imported)
    loss, _ = translation_loss(imported.network.train(), batch, LossConfig(label_smoothing=0.0))
    loss.backward()  # type: ignore[no-untyped-call]  # torch's
    for name, parameter in imported.network.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name


def test_marians_pieces_are_those_of_its_tokenizer(tmp_path: Path) -> None:
    from transformers import MarianTokenizer

    folders.marian(tmp_path / "model")
    imported = read_model(Folder(tmp_path / "model"), OPTIONS)
    theirs = MarianTokenizer.from_pretrained(tmp_path / "model")
    for sentence in [*folders.ENGLISH, *folders.SENTENCES]:
        (mine,) = imported.tokenizers.source.encode([sentence])
        asked = theirs(sentence).input_ids[:-1]
        assert imported.tokenizers.source.pieces(mine) == theirs.convert_ids_to_tokens(asked)
    for sentence in folders.GERMAN:
        (mine,) = imported.tokenizers.target.encode([sentence])
        asked = theirs(text_target=sentence).input_ids[:-1]
        assert imported.tokenizers.target.pieces(mine) == theirs.convert_ids_to_tokens(asked)
    assert imported.tokenizers.one_vocabulary and not imported.tokenizers.joint


def test_m2ms_pieces_are_those_of_its_tokenizer(tmp_path: Path) -> None:
    from transformers import M2M100Tokenizer

    folders.m2m(tmp_path / "model")
    imported = read_model(Folder(tmp_path / "model"), OPTIONS)
    model = tmp_path / "model"
    theirs = M2M100Tokenizer(
        str(model / "vocab.json"), str(model / "sentencepiece.bpe.model"), src_lang="en", tgt_lang="de"
    )
    for sentence in [*folders.LINES, *folders.SENTENCES]:
        (mine,) = imported.tokenizers.source.encode([sentence])
        asked = theirs(sentence).input_ids
        written = imported.tokenizers.source.pieces([*imported.config.source_prefix, *mine, EOS])
        assert written == theirs.convert_ids_to_tokens(asked)
    assert imported.tokenizers.target.pieces(imported.config.target_prefix) == ["__de__"]


def test_tables_that_differ_although_the_folder_ties_them_are_refused(tmp_path: Path) -> None:
    folders.marian(tmp_path / "model", tie_word_embeddings=False)
    change(tmp_path / "model", tie_word_embeddings=True)
    with pytest.raises(UserError, match=r"ties model.encoder.embed_tokens.weight, .*differ.*tie_word_embeddings=false"):
        read_model(Folder(tmp_path / "model"), OPTIONS)


def saved_again(kind: str, folder: Path) -> Any:
    """Saves a model with two more tokens and its tokenizer as transformers does today; returns the tokenizer."""
    from transformers import M2M100Tokenizer, MarianTokenizer, NllbTokenizer

    make, opener, settings = {
        "marian": (folders.marian, MarianTokenizer, {}),
        "m2m": (folders.m2m, M2M100Tokenizer, {}),
        "nllb": (folders.nllb, NllbTokenizer, {"extra_special_tokens": ["deu_Latn", "eng_Latn"]}),
    }[kind]
    network = make(folder / "first")
    tokenizer = opener.from_pretrained(folder / "first", **settings)
    tokenizer.add_tokens(["zorgblatt"])
    tokenizer.add_tokens(["<term>"], special_tokens=True)
    network.resize_token_embeddings(max(len(tokenizer), network.config.vocab_size), mean_resizing=False)
    network.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    return opener.from_pretrained(folder / "model")


@pytest.mark.parametrize("kind", ["marian", "m2m", "nllb"])
def test_tokens_of_a_fine_tuning_and_tokenizers_without_a_sentencepiece_file_are_kept(
    kind: str, tmp_path: Path
) -> None:
    theirs = saved_again(kind, tmp_path)
    assert (tmp_path / "model" / "tokenizer.json").is_file() == (kind == "nllb")
    imported = read_model(Folder(tmp_path / "model"), OPTIONS)
    assert imported.notes == {"added_tokens": 2}
    tokenizer = imported.tokenizers.source
    for sentence in (*folders.ENGLISH, "Two red balls ☃ were cold.", "A zorgblatt plays.", "The dog <term> plays."):
        (mine,) = tokenizer.encode([sentence])
        written = [piece for piece in theirs.convert_ids_to_tokens(theirs(sentence).input_ids) if piece != "</s>"]
        written = [piece for piece in written if piece not in ("eng_Latn", "__en__")]
        added = {f"▁{piece}": piece for piece in ("zorgblatt", "<term>")} if kind != "nllb" else {}  # drop the blank
        assert [added.get(piece, piece) for piece in tokenizer.pieces(mine)] == written
    assert tokenizer.decode([tokenizer.encode(["A zorgblatt plays."])[0]]) == ["A zorgblatt plays."]


def test_a_tokenizer_that_is_not_sentencepieces_is_named(tmp_path: Path) -> None:
    saved_again("nllb", tmp_path)
    path = tmp_path / "model" / "tokenizer.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"normalizer": {"type": "Lowercase"}}))
    with pytest.raises(UserError, match=r"tokenizer.json: not made from a SentencePiece model.*Lowercase"):
        read_model(Folder(tmp_path / "model"), OPTIONS)


def test_nllbs_languages_are_found_and_several_scripts_are_asked_about(tmp_path: Path) -> None:
    folders.nllb(tmp_path / "model")
    folder = Folder(tmp_path / "model")
    found = read_model(folder, OPTIONS)
    assert found.tokenizers.source.pieces([*found.config.source_prefix, *found.config.target_prefix]) == [
        "eng_Latn", "deu_Latn",
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"imports.target_token: several tokens stand for 'zh'.*zho_Hans, zho_Hant"):
        read_model(folder, ImportOptions("en", "zh"))
    chosen = read_model(folder, ImportOptions("en", "zh", target_token="zho_Hant"))
    assert chosen.tokenizers.source.pieces(chosen.config.target_prefix) == ["zho_Hant"]
    with pytest.raises(UserError, match=r"imports.target_token: no token stands for 'fr'"):
        read_model(folder, ImportOptions("en", "fr"))


def test_another_target_language_gives_another_translation(tmp_path: Path) -> None:
    folders.m2m(tmp_path / "model")
    folder = Folder(tmp_path / "model")
    texts = []
    for language in ("de", "fr"):
        save_imported(
            tmp_path / language, read_model(folder, ImportOptions("en", language)), folder, f"en-{language}", {}
        )
        texts.append([one.text for one in open_translator(tmp_path / language).translate(folders.SENTENCES)])
    assert texts[0] != texts[1]


def test_the_bundle_tells_where_it_comes_from(tmp_path: Path) -> None:
    folders.marian(tmp_path / "model", num_beams=3)
    folder = Folder(tmp_path / "model")
    save_imported(tmp_path / "bundle", read_model(folder, OPTIONS), folder, "en-de", {"source": "hf://a/b"})
    facts = json.loads((tmp_path / "bundle" / "config.json").read_text())
    imported = facts["imported"]
    assert (imported["source"], imported["license"], imported["model_type"]) == ("hf://a/b", "apache-2.0", "marian")
    assert set(imported["files"]) >= {"config.json", "model.safetensors", "source.spm", "vocab.json"}
    assert BOS not in load_bundle(tmp_path / "bundle").network.config.source_prefix


BROKEN: list[tuple[Callable[[Path], object], str]] = [
    (lambda model: (model / "config.json").unlink(), r"config.json is missing. Files: .*source.spm"),
    (lambda model: (model / "config.json").write_text("{"), r"config.json: not JSON"),
    (lambda model: (model / "vocab.json").write_text("[1]"), r"vocab.json: must be a JSON object, not list"),
    (lambda model: (model / "source.spm").unlink(), r"source.spm is missing"),
    (lambda model: (model / "target.spm").write_bytes(b"no"), r"target.spm: not a SentencePiece model"),
    (lambda model: (model / "model.safetensors").write_bytes(b"no"), r"model.safetensors: not readable as safetensors"),
    (lambda model: (model / "model.safetensors").rename(model / "pytorch_model.bin"), r"pytorch_model.bin is a pickle"),
    (lambda model: (model / "model.safetensors").unlink(), r"model.safetensors is missing"),
    (lambda model: change(model, model_type="albert"), r"model_type: 'albert'.* Choices: .*marian"),
    (lambda model: change(model, d_model=64), r"tensor '.*' has shape .*, config.json asks for"),
    (lambda model: change(model, d_model="big"), r"d_model='big': must be of the type int"),
    (lambda model: change(model, decoder_layers=4), r"decoder_layers=4: the weights have 3 layers"),
    (lambda model: change(model, encoder_layers=10**6), r"encoder_layers=1000000: the weights have 2 layers"),
    (lambda model: change(model, vocab_size=10**11), r"vocab_size=100000000000: the weights have \d+ tokens"),
    (
        lambda model: change(model, max_position_embeddings=10**12),
        r"max_position_embeddings=1000000000000: must be 1 to",
    ),
    (lambda model: change(model, dropout=5), r"dropout=5: must be at least 0 and below 1"),
    (lambda model: change(model, encoder_attention_heads=5, decoder_attention_heads=5), r"=5: must divide d_model=32"),
    (lambda model: change(model, auto_map={"AutoModel": "evil.Evil"}), r"auto_map=.*: what this key changes in marian"),
    (lambda model: change(model, is_decoder=True), r"is_decoder=True: ours has False"),
    (lambda model: (model / "config.json").write_text("[" * 200_000 + "]" * 200_000), r"config.json: not JSON"),
    (lambda model: change(model, decoder_ffn_dim=8), r"encoder_ffn_dim=48, decoder_ffn_dim=8"),
    (lambda model: change(model, activation_function="mish"), r"activation_function='mish' is not known"),
    (lambda model: change(model, pad_token_id=9999), r"pad_token_id=9999: outside of the vocabulary"),
]


def test_generation_settings_are_read_or_named(tmp_path: Path) -> None:
    folders.marian(tmp_path / "model", num_beams=3)
    pad = json.loads((tmp_path / "model" / "config.json").read_text())["pad_token_id"]
    settings = {"num_beams": 5, "length_penalty": 0.8, "no_repeat_ngram_size": 3, "temperature": 1.0}
    folders.write(tmp_path / "model" / "generation_config.json", {**settings, "bad_words_ids": [[pad]], "new_key": 7})
    folder = Folder(tmp_path / "model")
    assert (decoding(folder).beam, decoding(folder).length_penalty) == (5, 0.8)
    assert not_followed(folder) == ["no_repeat_ngram_size=3", "new_key=7"]


@pytest.mark.parametrize(
    ("kind", "row"), {**ROWS, "bart": BART, "marian": MARIAN, "m2m_100": M2M}.items(), ids=lambda value: str(value)[:9]
)
def test_keys_and_their_defaults_are_those_of_the_class_in_transformers(kind: str, row: Row) -> None:
    theirs = transformers.CONFIG_MAPPING[kind]().to_dict()
    ours = {**dict(row.settings.values()), **row.read, **{key: values[0] for key, values in row.needs.items()}}
    assert set(theirs) <= {*ours, *row.ignored} | ABOUT | KEYS
    own = {"head_dim", "rope_parameters", "decoder_vocab_size"}  # computed from others there
    for key in (ours.keys() & theirs.keys()) - own:
        default = ours[key]
        if callable(default):
            default = default({"heads": theirs.get("num_attention_heads"), "width": theirs.get("n_embd")})
            assert theirs[key] in (default, None), key
        else:
            assert theirs[key] == default, key


def change(model: Path, **settings: object) -> None:
    content = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(content | settings))


@pytest.mark.parametrize(("damage", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_what_does_not_fit_is_named(damage: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    folders.marian(tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(UserError, match=message):
        read_model(Folder(tmp_path / "model"), OPTIONS)
