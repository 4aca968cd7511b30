"""The roles of all networks' parameters: what is decayed, what Muon turns, and which matrices share a parameter."""

import re
from typing import Any

import pytest
import torch
from torch import nn

from dragoman.conf import groups
from dragoman.model.layers.low_rank import LowRank
from dragoman.model.layers.roles import Role, roles
from dragoman.model.networks.architectures import architecture, build_network, model_config
from dragoman.pipelines.settings import OptimizerConfig
from dragoman.pipelines.training.optimizer import make_optimizer

SMALL = {"width": 32, "feed_forward": 64, "embedding": 16, "encoder_width": 16, "heads": 4}
MATRICES = (
    "annotation bridge head inner input join key kv out outer q qkv query readout select step weight_hh weight_ih"
)
TABLES = "embedding output table"  # endings
STACKED = {"qkv": 3, "kv": 2, "input": 2, "select": 3}  # matrices in a parameter, of any network that has it
CHOICES = [
    name
    for name in groups.choices("model")
    if architecture(groups.merge_choice("model", name)["architecture"]).kind != "vectors"
]


def network_of(name: str, **changes: Any) -> nn.Module:
    """The network of conf/model/NAME.yaml, smaller."""
    values = groups.merge_choice("model", name)
    values |= {key: value for key, value in SMALL.items() if isinstance(values.get(key), int)} | changes
    return build_network(model_config(values), 50, 50)


def named_roles(network: nn.Module) -> dict[str, Role]:
    found = roles(network)
    return {name: found[parameter] for name, parameter in network.named_parameters()}


def layer_of(name: str) -> str:
    """`encoder.0.self_attention.qkv.weight` -> `qkv`, `encoder.layers.0.weight_hh_l0_reverse` -> `weight_hh`."""
    *before, last = re.sub(r"_l\d+(_reverse)?$", "", name).split(".")
    return before[-1] if last == "weight" else last


@pytest.mark.parametrize("name", CHOICES)
def test_every_parameter_of_every_network_has_the_role_that_is_listed(name: str) -> None:
    for parameter, role in named_roles(network_of(name)).items():
        layer = layer_of(parameter)
        kind = (
            "table"
            if layer.endswith(tuple(TABLES.split()))
            else "matrix"
            if ".weight" in parameter and layer in MATRICES.split()
            else "plain"
        )
        assert role.kind == kind, parameter
        if layer in STACKED:
            assert len(role.rows) == STACKED[layer], parameter


@pytest.mark.parametrize(
    ("choice", "changes", "name", "rows"),
    [
        ("transformer_tiny", {"kv_heads": 1}, "decoder.0.self_attention.qkv.weight", (32, 8, 8)),
        ("transformer_tiny", {"kv_heads": 1}, "decoder.0.cross_attention.kv.weight", (8, 8)),
        ("transformer_tiny", {"activation": "swiglu"}, "encoder.0.feed_forward.inner.weight", (64, 64)),
        ("rnnenc", {"cell": "lstm"}, "encoder.layers.0.weight_hh_l0", (32,) * 4),
        ("statelm_selective", {}, "layers.0.mixer.select.weight", (2, 16, 16)),
    ],
)
def test_stacked_matrices_have_rows_of_their_own(
    choice: str, changes: dict[str, Any], name: str, rows: tuple[int, ...]
) -> None:
    assert named_roles(network_of(choice, **changes))[name].rows == rows


def test_low_rank_factors_are_stacked_as_the_weights_are() -> None:
    """Also RNNsearch's bridge, a matrix for each layer's states."""
    network = network_of("rnnsearch_additive", cell="lstm", decoder_layers=2)
    assert named_roles(network)["bridge.weight"].rows == (32,) * 4
    for layer, rows in ((network.bridge, (32,) * 4), (network.readout, ())):
        assert isinstance(layer, nn.Linear)
        factors = LowRank(layer, 2, 1.0, 0.0, torch.Generator())
        assert roles(factors)[factors.up] == Role("matrix", rows) and roles(factors)[factors.down] == Role("matrix")


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_decay_and_muon_leave_rates_and_distances_alone(kind: Any) -> None:
    """Without gradients only decay moves a parameter: the state space's rates and filters stay as they are."""
    for choice, changes in (("statelm_selective", {}), ("transformer_tiny", {"positions": "learned"})):
        network = network_of(choice, **changes)
        spared = [p for n, p in network.named_parameters() if layer_of(n) in ("decay", "convolution", "table")]
        before = [parameter.detach().clone() for parameter in spared]
        optimizer = make_optimizer(OptimizerConfig(kind=kind, weight_decay=0.2, lr=0.01), network)
        for parameter in network.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        assert spared and all(torch.equal(old, new) for old, new in zip(before, spared, strict=True))
