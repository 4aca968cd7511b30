"""The table of parts: each parameter of each network belongs to one."""

import pytest
import torch

from dragoman.model.networks.architectures import ARCHITECTURES, architecture, build_network, model_config
from dragoman.model.networks.part_names import PARTS, parameters


@pytest.mark.parametrize("name", sorted(PARTS))
def test_every_parameter_has_a_part(name: str) -> None:
    with torch.device("meta"):
        network = build_network(model_config({"architecture": name}), 30, 30)
    found = [parameter for prefixes in PARTS[name].values() for _, parameter in parameters(network, prefixes)]
    assert {id(one) for one in found} == {id(one) for one in network.parameters()}


def test_every_network_is_in_the_table() -> None:
    assert PARTS.keys() == {name for name in ARCHITECTURES if architecture(name).kind != "vectors"}
