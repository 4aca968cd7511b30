"""Muon against its definition: which parameters it takes, how long its steps are, and which way they go."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import torch.distributed as dist
from torch import nn

from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.ports import free_ports
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.settings import OptimizerConfig
from dragoman.pipelines.training import optimizer as module
from dragoman.pipelines.training.loop import Trainer
from dragoman.pipelines.training.optimizer import ADAMS_LENGTH, Muon, make_optimizer, orthogonal
from tests.pipelines.training.test_loop import (
    CONFIG,
    CPU,
    NETWORKS,
    check_turns,
    rank_process,
    shards,
    steps,
    tensors,
    train,
    weights,
)
from tests.warm import start_ranks

__all__ = ["shards"]

CONFIG = replace(CONFIG, optimizer=replace(CONFIG.optimizer, kind="muon", weight_decay=0.1))


@pytest.mark.parametrize(("rows", "columns"), [(6, 6), (12, 4), (4, 12)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_orthogonal_keeps_the_directions_and_levels_their_lengths(rows: int, columns: int, dtype: torch.dtype) -> None:
    """Of U S V' it gives about U V', whatever the singular values S were, for several matrices at once."""
    torch.manual_seed(1)
    small = min(rows, columns)
    u, v = torch.linalg.qr(torch.randn(3, rows, small))[0], torch.linalg.qr(torch.randn(3, columns, small))[0]
    lengths = torch.linspace(1.0, 5.0, small)
    found = orthogonal((u * lengths @ v.mT).to(dtype))
    assert found.dtype == dtype
    within = u.mT @ found.float() @ v  # (3, small, small): about the identity
    assert torch.allclose(within, torch.diag_embed(within.diagonal(dim1=1, dim2=2)), atol=0.05)
    assert (within.diagonal(dim1=1, dim2=2) - 0.95).abs().max() < 0.3


def test_a_matrix_without_a_gradient_stays_finite() -> None:
    assert torch.equal(orthogonal(torch.zeros(1, 3, 3)), torch.zeros(1, 3, 3))


def test_its_steps_are_those_of_torchs_muon() -> None:
    """In bfloat16, in which torch's computes everywhere."""
    torch.manual_seed(2)
    ours = [nn.Parameter(torch.randn(shape)) for shape in [(32, 64), (64, 32), (16, 16), (16, 16)]]
    theirs = [nn.Parameter(weight.detach().clone()) for weight in ours]
    other = nn.Parameter(torch.zeros(3))
    adam = torch.optim.Adam([other], lr=0.01)
    optimizer = Muon(ours, adam, weight_decay=0.1, work=torch.bfloat16)
    expected = torch.optim.Muon(theirs, lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        for weight, twin in zip(ours, theirs, strict=True):
            weight.grad = torch.randn_like(weight)
            twin.grad = weight.grad.clone()
        other.grad = torch.ones(3)
        optimizer.step()
        expected.step()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=3e-4)  # a step has a root mean square of 0.002
    assert torch.allclose(other, torch.full((3,), -0.03), atol=1e-4)


def test_decay_shrinks_matrices_alone() -> None:
    weight, other = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))
    optimizer = Muon([weight], torch.optim.Adam([other], lr=0.5), weight_decay=0.1, work=torch.float32)
    weight.grad, other.grad = torch.zeros(2, 2), torch.zeros(2)
    optimizer.step()
    assert torch.allclose(weight, torch.full((2, 2), 0.95))
    assert torch.equal(other, torch.ones(2))


@pytest.mark.parametrize("tie", ["all", "none"])
def test_words_biases_and_norms_stay_with_adam(tie: str) -> None:
    network = build_network(model_config({**NETWORKS["transformer"], "tie": tie}), 50, 50)
    muon, *adam = make_optimizer(OptimizerConfig(kind="muon"), network).param_groups
    names = {id(p): name for name, p in network.named_parameters()}
    of_muon = {names[id(p)] for p in muon["params"]}
    of_adam = {names[id(p)] for group in adam for p in group["params"]}
    assert of_muon | of_adam == set(names.values()) and not of_muon & of_adam
    assert "decoder.0.cross_attention.kv.weight" in of_muon and "encoder.0.self_attention.qkv.weight" in of_muon
    assert {name for name in of_adam if network.get_parameter(name).ndim > 1} == {
        name for name in names.values() if "embedding" in name or name == "output.weight"
    }


def test_a_run_goes_on_as_if_it_had_never_stopped(shards: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, optimizer=replace(CONFIG.optimizer, split_packed=True))
    train(shards, tmp_path / "whole", config)
    train(shards, tmp_path / "cut", replace(config, max_steps=4))
    train(shards, tmp_path / "cut", config)
    assert [line["loss"] for line in steps(tmp_path / "whole")] == [line["loss"] for line in steps(tmp_path / "cut")]
    for name, value in weights(tmp_path / "whole").items():
        assert torch.equal(value, weights(tmp_path / "cut")[name])
    assert steps(tmp_path / "whole")[-1]["loss"] < steps(tmp_path / "whole")[0]["loss"]


def test_packed_matrices_are_orthogonal_each_by_itself_when_asked() -> None:
    """Whole, the part with the largest gradient leaves the others short steps; apart, each part has a full one."""
    torch.manual_seed(3)
    gradient = torch.cat([torch.randn(16, 16) * scale for scale in (0.01, 0.1, 1.0)])
    lengths = []
    for rows in ([48], [16, 16, 16]):
        weight = nn.Parameter(torch.zeros(48, 16))
        adam = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=1.0)
        optimizer = Muon([weight], adam, 0.0, torch.float32, {weight: rows})
        weight.grad = gradient.clone()
        optimizer.step()
        lengths.append([part.square().mean().sqrt().item() for part in weight.detach().split(16)])
    whole, apart = lengths
    assert whole[0] < 0.05 * whole[2]
    assert apart == pytest.approx([ADAMS_LENGTH] * 3, rel=0.3)
    wanted = orthogonal(torch.stack(gradient.split(16))).flatten(0, 1) * -ADAMS_LENGTH * 4.0
    assert torch.allclose(weight.detach(), wanted, atol=1e-3)


def three_updates(rank: int, port: int, folder: str, world: int) -> None:
    """Saves the weights after three updates on a rank, and the matrices that it made orthogonal itself."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    made: list[int] = []

    def counted(matrices: torch.Tensor) -> torch.Tensor:
        made.append(len(matrices))
        return orthogonal(matrices)

    patch = pytest.MonkeyPatch()
    patch.setattr(module, "TOGETHER", 512)  # two of 16 x 16
    patch.setattr(module, "orthogonal", counted)
    torch.manual_seed(4)
    weights = [nn.Parameter(torch.randn(shape)) for shape in [(32, 64), (64, 32), (48, 16), *[(16, 16)] * 4]]
    adam = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=0.01)
    optimizer = Muon(weights, adam, 0.1, torch.float32, {weights[2]: (16, 16, 16)}, Ranks(rank, world, CPU))
    for _ in range(3):
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        optimizer.step()
    torch.save((weights, sum(made)), Path(folder) / f"{world}-{rank}")
    dist.destroy_process_group()


@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
def test_ranks_share_the_matrices_and_make_the_same_bits(tmp_path: Path) -> None:
    for world in (1, 3):
        (port,) = free_ports(1)
        start_ranks(three_updates, (port, str(tmp_path), world), world)
    alone, made = torch.load(tmp_path / "1-0")
    assert made == 3 * 9
    ranks = [torch.load(tmp_path / f"3-{rank}") for rank in range(3)]
    assert sum(made for _, made in ranks) == 3 * 9 and all(made for _, made in ranks)
    for updated, _ in ranks:
        assert all(map(torch.equal, updated, alone))


def turn(rank: int, port: int, run: str, shards: str) -> None:
    rank_process(rank, port, shards, run, replace(CONFIG, max_steps=8), "transformer")


@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
@pytest.mark.usefixtures("one_thread")
def test_a_run_has_the_same_bits_when_the_number_of_ranks_changes(shards: Path, tmp_path: Path) -> None:
    def start(run: Path, **changes: Any) -> Trainer:
        return train(shards, run, replace(CONFIG, **changes))

    check_turns(tmp_path, start, turn, str(shards))
    for group, expected in tensors(tmp_path / "alone").items():
        for name, value in tensors(tmp_path / "turns")[group].items():
            assert torch.equal(value, expected[name]), (group, name)


@pytest.mark.parametrize("kind", ["muon", "adamw"])
@pytest.mark.parametrize("tie", ["all", "none"])
def test_learned_positions_and_the_output_layer_are_spared(kind: Literal["muon", "adamw"], tie: str) -> None:
    network = build_network(model_config({**NETWORKS["transformer"], "tie": tie, "positions": "learned"}), 50, 50)
    optimizer = make_optimizer(OptimizerConfig(kind=kind, weight_decay=0.1), network)
    decayed = {id(p) for group in optimizer.param_groups if group["weight_decay"] for p in group["params"]}
    tables = [network.source_positions.table, network.target_positions.table, network.output.weight]  # type: ignore[attr-defined]
    assert decayed and not decayed & {id(table) for table in tables}
