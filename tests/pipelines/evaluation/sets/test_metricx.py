"""MetricX of a tiny mT5 with random weights, against its formula written out line by line."""

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from dragoman.model.errors import UserError
from dragoman.pipelines.evaluation.sets.metricx import TEXTS, MetricX
from dragoman.pipelines.evaluation.sets.read import HeldOutSet
from dragoman.pipelines.evaluation.sets.scores import score_set
from dragoman.pipelines.settings import MetricXForm

transformers = pytest.importorskip("transformers", reason="transformers is not installed (the extra comet)")
PIECES = "<pad> </s> <unk> source candidate reference : a dog runs der Hund rennt ein Haus"
WORDS = PIECES.split()
ANSWER = "<extra_id_10>"
SOURCES = ["a dog runs", "dog", "a dog"]
HYPOTHESES = ["ein Hund rennt", "Haus", ""]
REFERENCES = [("der Hund rennt", "ein Hund rennt"), ("Hund",), ("ein Hund",)]
CPU = torch.device("cpu")


def write_folder(folder: Path, answer: str = ANSWER) -> Path:
    """Writes a model with random weights, in the form of the published ones."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    pieces = [*WORDS, answer]
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(pieces)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    special = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 1}
    config = transformers.MT5Config(vocab_size=len(pieces), **sizes)
    config.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(written | {"tie_word_embeddings": False}))
    torch.manual_seed(5)
    weights = dict(transformers.MT5Model(config).state_dict())
    weights["lm_head.weight"] = 8 * torch.randn(len(pieces), 8)
    for name in ("encoder", "decoder"):
        del weights[f"{name}.embed_tokens.weight"]
    save_file({name: one.contiguous() for name, one in weights.items()}, folder / "model.safetensors")
    return folder


def by_formula(folder: Path, text: str) -> float:
    """One text, without padding and batches, by the layers of the whole model and a head of its own."""
    weights = load_file(folder / "model.safetensors")
    network = transformers.MT5Model(transformers.MT5Config.from_pretrained(folder)).eval()
    network.load_state_dict({name: one for name, one in weights.items() if name != "lm_head.weight"}, strict=False)
    pieces = [*WORDS, ANSWER]
    tokens = text.replace(":", " :").split()
    ids = torch.tensor([[pieces.index(token) if token in pieces else 2 for token in tokens]])
    with torch.no_grad():
        states = network(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).last_hidden_state
    return min(25.0, max(0.0, float((weights["lm_head.weight"] @ states[0, 0])[len(WORDS)])))


@pytest.mark.parametrize("form", list(TEXTS))
def test_scores_are_those_of_the_formula(form: MetricXForm, tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    found = MetricX(folder, form, CPU).score(SOURCES, HYPOTHESES, REFERENCES)
    for score, source, hypothesis, references in zip(found, SOURCES, HYPOTHESES, REFERENCES, strict=True):
        texts = [TEXTS[form].format(source=source, hypothesis=hypothesis, reference=one) for one in references]
        assert score == pytest.approx(sum(by_formula(folder, text) for text in texts) / len(texts), abs=1e-4)
    assert len({round(score, 3) for score in found}) > 1


def test_answers_are_bounded_and_do_not_depend_on_their_company(tmp_path: Path) -> None:
    metric = MetricX(write_folder(tmp_path), "metricx-24", CPU)
    texts = [f"{one} {other} {third}" for one in WORDS[7:] for other in WORDS[3:9] for third in ("a dog", "Haus : a")]
    together = metric.errors(texts)
    assert together == pytest.approx([metric.errors([text])[0] for text in texts], abs=1e-4)
    assert {0.0, 25.0} < set(together), "some beyond each bound, some between"


def test_a_long_text_loses_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.pipelines.evaluation.sets import metricx

    monkeypatch.setitem(metricx.LONGEST, "metricx-24", 6)
    metric = MetricX(write_folder(tmp_path), "metricx-24", CPU)
    assert metric.errors(["a dog runs ein Hund rennt ein Haus"]) == metric.errors(["a dog runs ein Hund"])


def test_it_is_a_metric_beside_the_others(tmp_path: Path) -> None:
    one = HeldOutSet("news", SOURCES, REFERENCES, ["law", "law", "talks"])
    metric = MetricX(write_folder(tmp_path), "metricx-23", CPU)
    lines = metric.score(SOURCES, HYPOTHESES, REFERENCES)
    found = score_set(one, HYPOTHESES, ["chrf", "metricx"], "de", judges={"metricx": metric})
    assert found.scores["metricx"] == pytest.approx(sum(lines) / 3)
    assert found.domains[0].scores["metricx"] == pytest.approx(sum(lines[:2]) / 2)
    assert "|form:metricx-23|refs:mean|0-25, lower is better" in found.signatures["metricx"]


def test_other_models_and_damage_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: Path, message: str) -> None:
        with pytest.raises(UserError, match=message):
            MetricX(folder, "metricx-24", CPU)

    refused(tmp_path / "none", r"evaluate\.metricx: .*: no such folder")
    refused(write_folder(tmp_path / "other", answer="<other>"), "the tokenizer lacks <extra_id_10>")
    folder = write_folder(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    save_file({name: one for name, one in weights.items() if "lm_head" not in name}, folder / "model.safetensors")
    refused(folder, r"the weights have no row 15 of 'lm_head\.weight'")
    save_file(weights | {"shared.weight": torch.zeros(3, 8)}, folder / "model.safetensors")
    refused(folder, r"config\.json: the weights do not fit: .*shared")
    save_file(weights | {"other.weight": torch.zeros(3)}, folder / "model.safetensors")
    refused(folder, r"the weights lack or do not fit 'other\.weight', one of 1")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, r"evaluate\.metricx: .*pytorch_model\.bin is a pickle, .*docs/evaluation\.md")
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"mt5"', '"t5"'))
    refused(folder, "model_type='t5': must be 'mt5'")
    monkeypatch.setitem(sys.modules, "transformers", None)
    refused(folder, "pip install 'dragoman")
