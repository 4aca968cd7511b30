"""Networks of one language in the training loop: exact resume, carried states, the same run on one and two ranks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from dragoman.model.networks.architectures import architecture, build_network, model_config
from dragoman.model.networks.language_network import LanguageNetwork
from dragoman.model.runs import checkpoints
from dragoman.model.settings import LossConfig
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.labels import FIRST, GAP, LabelTokenizer
from dragoman.model.text.tokenizer import SPECIAL_PIECES, Ids
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.loaders.labelled import LabelledLoader
from dragoman.pipelines.loaders.masked import MaskedLoader, Masking
from dragoman.pipelines.loaders.prefetch import Lanes
from dragoman.pipelines.loaders.streams import StreamLoader, WindowLoader
from dragoman.pipelines.loaders.text import SplitText
from dragoman.pipelines.settings import LoaderConfig, OptimizerConfig, TrainConfig
from dragoman.pipelines.training import checkpoint
from dragoman.pipelines.training.loop import Report, Trainer
from tests.pipelines.training import test_loop
from tests.pipelines.training.test_loop import CPU, check_resumed, check_turns, nothing, steps, tensors
from tests.random_shards import VOCABULARY, random_records

LOADER = LoaderConfig(lanes=2, batch_tokens=48, context_length=8, window_chunks=2, max_length=16)
CONFIG = TrainConfig(
    max_steps=12,
    precision="fp32",
    optimizer=OptimizerConfig(lr=0.01, warmup_steps=4),
    loss=LossConfig(0.0),
    evaluate_every=6,
    checkpoint_every=4,
    keep_checkpoints=9,
    average_last=2,
)
SMALL = {"width": 16, "heads": 2, "feed_forward": 16, "layers": 1, "dropout": 0.3, "max_positions": 16}
NETWORKS: dict[str, dict[str, Any]] = {
    "rnnlm": {"architecture": "rnnlm", "cell": "lstm", "embedding": 12, "width": 16, "layers": 2, "dropout": 0.3},
    "rnnlm attention": {"architecture": "rnnlm", "embedding": 12, "width": 16, "layers": 1, "past": 4},
    "selective": {
        "architecture": "statelm",
        "mixer": "selective",
        "width": 16,
        "feed_forward": 16,
        "layers": 2,
        "states": 4,
    },
    "gpt batch norm": {"architecture": "gpt", "norm_kind": "batch", **SMALL},
    "bert": {"architecture": "bert", **SMALL},
    "tags": {"architecture": "recurrent_head", "head": "tags", "embedding": 12, "width": 8, "layers": 2},
}
TAGS = LabelTokenizer([*SPECIAL_PIECES, "NAME", "NOUN", "VERB"], "tags")
CARRY = ("rnnlm", "rnnlm attention", "selective")  # networks that carry states from batch to batch
LOADED = ("rnnlm", "gpt batch norm", "bert", "tags")  # one of each loader


def loader_of(kind: str, shards: Path, ranks: Ranks) -> Lanes[Any]:
    place = (3, ranks.rank, ranks.world)
    if kind == "tags":
        return LabelledLoader(ShardReader(shards, "train"), TAGS, LOADER, *place)
    text = SplitText(shards, "train")
    if kind in CARRY:
        return StreamLoader(text, LOADER, *place)
    if kind != "bert":
        return WindowLoader(text, LOADER, *place)
    return MaskedLoader(text, LOADER, Masking(VOCABULARY, 0.15), *place)


def train(
    shards: Path,
    run: Path,
    kind: str,
    config: TrainConfig = CONFIG,
    ranks: Ranks | None = None,
    report: Report = nothing,
    **changes: Any,
) -> Trainer:
    """One start of a small run, with dropout; `changes` replace the trainer's arguments."""
    ranks = ranks or Ranks(0, 1, CPU)
    torch.manual_seed(5)
    size = TAGS.vocabulary if kind == "tags" else VOCABULARY
    own = {
        "network": build_network(model_config(NETWORKS[kind]), VOCABULARY, size),
        "loss": architecture(NETWORKS[kind]["architecture"]).loss,
        "loader": loader_of(kind, shards, ranks),
    }
    return test_loop.train(shards, run, config, ranks, report, **{**own, **changes})


@pytest.fixture
def kind() -> str:
    """The network of a test that names none."""
    return "rnnlm"


@pytest.fixture
def shards(make_shards: Callable[..., Path], kind: str) -> Path:
    return make_shards([(source, label_of(kind, source)) for source, _ in random_records(300)])


def label_of(kind: str, text: Ids) -> Ids | None:
    """Returns a text's tags, computed from its ids; None for networks that learn the text itself."""
    return np.where(text % 4, FIRST + text % 3, GAP).astype(text.dtype) if kind == "tags" else None


def starts(shards: Path, kind: str) -> Callable[..., Trainer]:
    def start(run: Path, report: Report = nothing, **changes: Any) -> Trainer:
        return train(shards, run, kind, replace(CONFIG, **changes), report=report)

    return start


@pytest.mark.parametrize("kind", sorted({*CARRY, *LOADED}))
def test_a_resumed_run_is_the_undisturbed_run(kind: str, shards: Path, tmp_path: Path) -> None:
    """The carried states among its tensors."""
    check_resumed(tmp_path, starts(shards, kind))
    assert (sorted(tensors(tmp_path / "whole").get("carried", {})) == ["0", "1"]) is (kind in CARRY)


def turn(rank: int, port: int, run: str, shards: str, kind: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    train(Path(shards), Path(run), kind, replace(CONFIG, max_steps=8), Ranks(rank, 2, CPU))
    dist.destroy_process_group()


@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
@pytest.mark.parametrize("kind", ["rnnlm", "tags"])
def test_one_and_two_ranks_are_the_same_run_and_may_take_turns(kind: str, shards: Path, tmp_path: Path) -> None:
    check_turns(tmp_path, starts(shards, kind), turn, str(shards), kind)


def test_the_carried_state_matters(shards: Path, tmp_path: Path) -> None:
    """A resume without it is another run: what the checkpoint keeps is needed."""
    train(shards, tmp_path / "whole", "rnnlm")
    train(shards, tmp_path / "cut", "rnnlm", replace(CONFIG, max_steps=4))
    groups, state = checkpoint.read(checkpoints.last(tmp_path / "cut"))
    zeros = {lane: torch.zeros_like(held) for lane, held in groups["carried"].items()}
    checkpoint.write(tmp_path / "cut", 4, 1, {**groups, "carried": zeros}, state)
    train(shards, tmp_path / "cut", "rnnlm")
    assert steps(tmp_path / "whole")[4]["loss"] != steps(tmp_path / "cut")[4]["loss"]


def test_a_broken_step_leaves_no_broken_state(shards: Path, tmp_path: Path) -> None:
    calls = iter(range(1000))

    def loss(network: LanguageNetwork, batch: Any, config: LossConfig) -> tuple[torch.Tensor, torch.Tensor]:
        value, nll = architecture("rnnlm").loss(network, batch, config)
        if next(calls) == 3:  # step 2, second lane
            network.carried[batch.lane] = network.carried[batch.lane] * float("nan")
            value = value * float("nan")
        return value, nll

    trainer = train(shards, tmp_path / "run", "rnnlm", loss=loss)
    assert trainer.progress.skipped == 1
    assert all(line["loss"] is not None for line in steps(tmp_path / "run")[2:])


@pytest.mark.parametrize("kind", LOADED)
def test_training_lowers_the_loss(kind: str, shards: Path, tmp_path: Path) -> None:
    train(shards, tmp_path / "run", kind, replace(CONFIG, max_steps=40, checkpoint_every=40))
    losses = [line["nll"] for line in steps(tmp_path / "run")]
    assert sum(losses[-5:]) < sum(losses[:5])
