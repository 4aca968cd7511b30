"""MetricX (Juraska et al. 2023, 2024): a learned metric that reads source, translation and reference as one text.

An mT5 was fine-tuned to give the errors of a translation, from 0, none, to 25: the logit of the token <extra_id_10> at
the first place of the output. The folder holds mT5's `config.json`, safetensors and the tokenizer.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.huggingface.folder import Folder
from dragoman.pipelines.evaluation.sets.learned import load_weights, open_folder
from dragoman.pipelines.settings import MetricXForm

KEY = "evaluate.metricx"
TEXTS: dict[MetricXForm, str] = {  # the text of a line, as each version was trained on it; qe: without a reference
    "metricx-24": "source: {source} candidate: {hypothesis} reference: {reference}",
    "metricx-24-qe": "source: {source} candidate: {hypothesis}",
    "metricx-23": "candidate: {hypothesis} reference: {reference}",
    "metricx-23-qe": "candidate: {hypothesis} source: {source}",
}
LONGEST: dict[MetricXForm, int] = {
    "metricx-24": 1536,
    "metricx-24-qe": 1536,
    "metricx-23": 1024,
    "metricx-23-qe": 1024,
}  # tokens
SHARED = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}  # shared.weight, which may stand alone
ANSWER = ("<extra_id_10>", "▁<extra_id_10>")  # as tokenizers write the token
WORST = 25.0
BATCH = 16  # texts


class MetricX:
    """A MetricX model that is ready to score."""

    def __init__(self, path: Path, form: MetricXForm, device: torch.device) -> None:
        """Opens the folder.

        Raises UserError: transformers is missing, a file is missing or a pickle, or the model is of another kind.
        """
        opened = open_folder(KEY, path, "mt5")
        self.tokenizer = opened.tokenizer
        words = self.tokenizer.get_vocab()
        answers = [words[token] for token in ANSWER if token in words]
        if not answers:
            raise UserError(f"{KEY}: {path}: the tokenizer lacks {ANSWER[0]}, whose logit is the score")
        self.form, self.device = form, device
        # transformers' class with a head would share its table with the embeddings, which these models do not
        self.head = head_row(opened.weights, answers[0], opened.files).to(device)
        self.network = opened.network
        load_weights(self.network, opened.weights, f"{KEY}: {path}: config.json", SHARED)
        self.network.eval().to(device)
        self.signature = f"{path.name}|weights:{opened.digest}|form:{form}|refs:mean|0-25, lower is better"

    def score(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[float]:
        """Returns the errors of each line, 0 to 25, the mean over its references."""
        texts: list[list[str]] = []
        for source, hypothesis, line in zip(sources, hypotheses, references, strict=True):
            filled = (
                TEXTS[self.form].format(source=source, hypothesis=hypothesis, reference=reference) for reference in line
            )
            texts.append(list(dict.fromkeys(filled)))
        every = list(dict.fromkeys(text for line in texts for text in line))
        error_of_row = dict(zip(every, self.errors(every), strict=True))
        return [sum(error_of_row[text] for text in line) / len(line) for line in texts]

    def errors(self, texts: Sequence[str]) -> list[float]:
        """Returns the model's answer to each text; what is longer than it was trained on loses its end."""
        rows: list[list[int]] = self.tokenizer(list(texts), truncation=True, max_length=LONGEST[self.form])["input_ids"]
        rows = [row[:-1] for row in rows]  # it was trained without the end of sentence
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        errors = [0.0] * len(rows)
        for first in range(0, len(order), BATCH):
            places = order[first : first + BATCH]
            width = max(1, max(len(rows[place]) for place in places))
            ids = torch.zeros(len(places), width, dtype=torch.int64)
            mask = torch.zeros_like(ids)
            for number, place in enumerate(places):
                ids[number, : len(rows[place])] = torch.tensor(rows[place])
                mask[number, : len(rows[place])] = 1
            with torch.inference_mode():
                start = torch.zeros(len(places), 1, dtype=torch.int64)
                inputs = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": start}
                states = self.network(
                    **{name: tensor.to(self.device) for name, tensor in inputs.items()}
                ).last_hidden_state
            for place, number in zip(places, (states[:, 0] @ self.head).clamp(0.0, WORST).tolist(), strict=True):
                errors[place] = number
        return errors


def head_row(weights: dict[str, Tensor], token: int, folder: Folder) -> Tensor:
    """Returns the row (D,) of the output layer that gives a token's logit; removes that layer from the weights."""
    head = weights.pop("lm_head.weight", None)
    if head is None and folder.setting("tie_word_embeddings", bool, True) and "shared.weight" in weights:
        head = weights["shared.weight"] * folder.setting("d_model", int) ** -0.5
    if head is None or token >= len(head):
        raise UserError(f"{KEY}: {folder.path}: the weights have no row {token} of 'lm_head.weight', the score's")
    return head[token].float()
