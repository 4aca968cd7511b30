"""COMET of a tiny XLM-R with random weights, against its formula written out text by text."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from dragoman.model.errors import UserError
from dragoman.pipelines.evaluation.sets.comet import Comet, sparsemax
from dragoman.pipelines.evaluation.sets.read import HeldOutSet
from dragoman.pipelines.evaluation.sets.scores import score_set

transformers = pytest.importorskip("transformers", reason="transformers is not installed (the extra comet)")
WORDS = ["<s>", "<pad>", "</s>", "<unk>", *["a", "dog", "runs", "der", "Hund", "rennt", "ein", "Haus", "steht", "hier"]]
HPARAMS = {
    "class_identifier": "regression_metric",
    "encoder_model": "XLM-RoBERTa",
    "layer": "mix",
    "layer_transformation": "sparsemax",
    "layer_norm": False,
    "pool": "avg",
    "hidden_sizes": [12, 6],
    "activations": "Tanh",
    "final_activation": None,
}
SOURCES = ["a dog runs", "dog", "a dog"]
HYPOTHESES = ["ein Hund rennt", "Haus", ""]
REFERENCES = [("der Hund rennt hier", "ein Hund rennt"), ("Hund",), ("ein Hund",)]


def write_folder(folder: Path, **changed: Any) -> Path:
    """Writes a model with random weights, as docs/evaluation.md describes a converted checkpoint."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    config = transformers.XLMRobertaConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=12, pad_token_id=1, bos_token_id=0, eos_token_id=2,
    )  # fmt: skip
    config.save_pretrained(folder)
    (folder / "hparams.yaml").write_text(yaml.safe_dump(HPARAMS | changed))
    torch.manual_seed(5)
    encoder = transformers.XLMRobertaModel(config, add_pooling_layer=False)
    weights = {f"encoder.model.{name}": one for name, one in encoder.state_dict().items()}
    weights |= {f"layerwise_attention.scalar_parameters.{i}": torch.randn(1) for i in range(3)}
    weights["layerwise_attention.gamma"] = torch.tensor([1.5])
    for place, (rows, columns) in {0: (12, 48), 3: (6, 12), 6: (1, 6)}.items():
        weights[f"estimator.ff.{place}.weight"] = torch.randn(rows, columns)
        weights[f"estimator.ff.{place}.bias"] = torch.randn(rows)
    save_file({name: one.contiguous() for name, one in weights.items()}, folder / "model.safetensors")
    return folder


def by_formula(folder: Path, source: str, hypothesis: str, reference: str) -> float:
    """One line, without padding and batches."""
    hparams, weights = yaml.safe_load((folder / "hparams.yaml").read_text()), load_file(folder / "model.safetensors")
    encoder = transformers.XLMRobertaModel(
        transformers.XLMRobertaConfig.from_pretrained(folder), add_pooling_layer=False
    )
    encoder.load_state_dict({name[14:]: one for name, one in weights.items() if name.startswith("encoder.model.")})
    encoder.eval()
    shares = torch.cat([weights[f"layerwise_attention.scalar_parameters.{i}"] for i in range(3)])
    shares = sparsemax(shares) if hparams["layer_transformation"] == "sparsemax" else shares.softmax(0)

    def vector(text: str) -> torch.Tensor:
        ids = torch.tensor([[0, *(WORDS.index(word) for word in text.split()), 2]])
        layers = encoder(ids, output_hidden_states=True).hidden_states
        if hparams["layer"] != "mix":
            states = layers[hparams["layer"]][0]
        else:
            if hparams["layer_norm"]:
                layers = [(one - one.mean()) / one.std(correction=0) for one in layers]
            states = weights["layerwise_attention.gamma"] * sum(
                s * one[0] for s, one in zip(shares, layers, strict=True)
            )
        return {"avg": states.mean(0), "cls": states[0], "max": states.amax(0)}[hparams["pool"]]

    s, t, r = map(vector, (source, hypothesis, reference))
    found = torch.cat((t, r, t * r, abs(t - r), t * s, abs(t - s)))
    for place in (0, 3, 6):
        found = weights[f"estimator.ff.{place}.weight"] @ found + weights[f"estimator.ff.{place}.bias"]
        found = torch.tanh(found) if place < 6 else found
    if hparams["final_activation"]:
        found = torch.sigmoid(found)
    return 100 * float(found.detach())


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"layer_transformation": "softmax", "layer_norm": True, "final_activation": "Sigmoid"},
        {"pool": "cls", "layer": 1},
        {"pool": "max"},
    ],
)
def test_scores_are_those_of_the_formula(changed: dict[str, Any], tmp_path: Path) -> None:
    folder = write_folder(tmp_path, **changed)
    found = Comet(folder, torch.device("cpu")).score(SOURCES, HYPOTHESES, REFERENCES)
    for score, source, hypothesis, references in zip(found, SOURCES, HYPOTHESES, REFERENCES, strict=True):
        each = [by_formula(folder, source, hypothesis, reference) for reference in references]
        assert score == pytest.approx(sum(each) / len(each), abs=1e-2)


def test_it_is_a_metric_beside_the_others(tmp_path: Path) -> None:
    one = HeldOutSet("news", SOURCES, REFERENCES, ["law", "law", "talks"])
    comet = Comet(write_folder(tmp_path), torch.device("cpu"))
    lines = comet.score(SOURCES, HYPOTHESES, REFERENCES)
    found = score_set(one, HYPOTHESES, ["chrf", "comet"], "de", judges={"comet": comet})
    assert found.scores["comet"] == pytest.approx(sum(lines) / 3)
    assert found.domains[0].scores["comet"] == pytest.approx(sum(lines[:2]) / 2)
    assert found.signatures["comet"].startswith(f"{tmp_path.name}|weights:")


def test_a_text_longer_than_the_positions_loses_its_end(tmp_path: Path) -> None:
    comet = Comet(write_folder(tmp_path), torch.device("cpu"))
    long, cut = comet.embed([" ".join(["Hund"] * 40), " ".join(["Hund"] * 8)])
    assert torch.allclose(long, cut, atol=1e-6)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([1.0, 1.0], [0.5, 0.5]), ([3.0, 0.0], [1.0, 0.0]), ([0.5, 0.0, -2.0], [0.75, 0.25, 0.0])],
)
def test_sparsemax_projects_onto_the_probabilities(scores: list[float], expected: list[float]) -> None:
    assert sparsemax(torch.tensor(scores)).tolist() == pytest.approx(expected)


def test_a_checkpoint_is_never_unpickled(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"evaluate\.comet: .*model\.safetensors is missing"):
        Comet(folder, torch.device("cpu"))
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "model.ckpt").write_bytes(b"\x80\x04")
    with pytest.raises(UserError, match=r"model\.ckpt is a pickle, which can run any code"):
        Comet(folder, torch.device("cpu"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"class_identifier": "unified_metric"},
            "class_identifier: 'unified_metric' is not known. Choices: regression_m",
        ),
        ({"pool": "sum"}, "pool: 'sum' is not known"),
        ({"hidden_sizes": []}, r"hidden_sizes=\[\]: must be widths"),
        ({"hidden_sizes": [13]}, "config.json and hparams.yaml: the weights do not fit: "),
        ({"layer": "last"}, "layer='last': must be mix or a number"),
    ],
)
def test_other_kinds_of_models_are_refused_by_name(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        Comet(write_folder(tmp_path, **changed), torch.device("cpu"))


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path)
    with monkeypatch.context() as without, pytest.raises(UserError, match="pip install 'dragoman"):
        without.setitem(__import__("sys").modules, "transformers", None)
        Comet(folder, torch.device("cpu"))
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"evaluate\.comet: .*config\.json is missing"):
        Comet(folder, torch.device("cpu"))
    (folder / "hparams.yaml").unlink()
    with pytest.raises(UserError, match=r"hparams\.yaml: cannot be read"):
        Comet(folder, torch.device("cpu"))


def test_weights_in_several_files_are_one_model(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    whole = Comet(folder, torch.device("cpu"))
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = {name: f"part-{place % 2}.safetensors" for place, name in enumerate(sorted(weights))}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    for file in sorted(set(names.values())):
        save_file({name: weights[name] for name in names if names[name] == file}, folder / file)
    parts = Comet(folder, torch.device("cpu"))
    assert parts.score(SOURCES, HYPOTHESES, REFERENCES) == whole.score(SOURCES, HYPOTHESES, REFERENCES)
    save_file({name: weights[name] + 1 for name in names if names[name] == file}, folder / file)
    assert Comet(folder, torch.device("cpu")).signature != parts.signature, "each file counts"
