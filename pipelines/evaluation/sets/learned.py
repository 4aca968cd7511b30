"""The folder of a learned metric: the configuration, tokenizer and weights of a network of transformers."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.huggingface.folder import CONFIG, INDEX, PICKLES, WEIGHTS, Folder


@dataclass(frozen=True)
class MetricFolder:
    """An opened folder; configuration, tokenizer and network are objects of transformers."""

    files: Folder
    config: Any
    tokenizer: Any
    network: Any  # with random weights; `load_weights` gives it its own
    weights: dict[str, Tensor]  # float32, by the checkpoint's names
    digest: str  # of the weights' files


def open_folder(key: str, path: Path, model_type: str, **options: Any) -> MetricFolder:
    """Opens the folder that the setting `key` names; `options` are the network's. No code of the folder is run."""
    try:
        from transformers import AutoConfig, AutoModel, AutoTokenizer
    except ImportError:
        raise UserError(f"{key}: needs the package transformers: pip install 'dragoman[comet]'") from None
    try:
        files = Folder(path)
        if files.config.get("model_type") != model_type:
            raise UserError(f"{path}: model_type={files.config.get('model_type')!r}: must be {model_type!r}")
        if not any((path / file_name).is_file() for file_name in (WEIGHTS, INDEX)):
            for pickle in sorted(entry for entry in path.rglob("*") if PICKLES.fullmatch(entry.name)):
                raise UserError(
                    f"{pickle} is a pickle, which can run any code; convert it where you trust it "
                    f"(docs/evaluation.md), and give the folder of {WEIGHTS}"
                )
        weights = {name: weight.float() for name, weight in files.tensors().left.items()}
    except UserError as problem:
        raise UserError(f"{key}: {problem}") from None
    try:
        config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as problem:
        reason = str(problem).strip().splitlines()[0]
        raise UserError(f"{key}: {path}: {CONFIG} and tokenizer cannot be read ({reason})") from None
    hashes = [file_sha256(file) for file in files.weight_files()]
    digest = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    network = AutoModel.from_config(config, dtype=torch.float32, **options)
    return MetricFolder(files, config, tokenizer, network, weights, digest[:12])


def load_weights(network: nn.Module, weights: Mapping[str, Tensor], where: str, may_lack: Collection[str] = ()) -> None:
    try:
        missing, left = network.load_state_dict(weights, strict=False)
    except RuntimeError as problem:
        raise UserError(f"{where}: the weights do not fit: {' '.join(str(problem).split())[:200]}") from None
    if wrong := sorted({*missing, *left} - set(may_lack)):
        raise UserError(f"{where}: the weights lack or do not fit {wrong[0]!r}, one of {len(wrong)}")
