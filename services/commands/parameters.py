"""`inspect.parameters=true`: every matrix of a bundle's network, and the cost of a step by part."""

from pathlib import Path
from typing import Any

from dragoman.model.bundles.directory import CONFIG
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
from dragoman.model.networks.network import Network, TranslationNetwork
from dragoman.model.networks.parts import FORWARD, matrices_of_lectures, parts, step_costs
from dragoman.model.runs.paths import BUNDLE

TOKENS = 128  # of each row whose cost is counted and measured
ROWS = 8


def parameters(path: Path) -> dict[str, Any]:
    """Returns the tables as plain values, of a bundle or of a run with one."""
    directory = path if (path / CONFIG).is_file() else path / BUNDLE
    if not (directory / CONFIG).is_file():
        raise UserError(f"inspect.parameters: {path} is no bundle and no run with one")
    bundle: Any = open_bundle(directory)
    network = getattr(bundle, "network", None)
    if not isinstance(network, Network):
        raise UserError(f"inspect.parameters: {directory} holds word vectors, which are one table and no network")
    every = parts(network)
    total = sum(part.parameters for part in every)
    rows = [
        {
            "part": part.part,
            "matrices": part.matrices,
            "shape": " x ".join(f"{size:,}" for size in part.shape),
            "formula": part.formula,
            "parameters": f"{part.parameters:,}",
            "share": f"{part.parameters / total:.1%}",
        }
        for part in every
    ]
    facts: dict[str, Any] = {
        "kind": "parameters",
        "path": str(directory),
        "matrices": rows,
        "parameters": total,
        "without_biases_norms_positions": matrices_of_lectures(every),
    }
    if not isinstance(network, TranslationNetwork):  # whose step needs two texts
        length = min(TOKENS, getattr(network, "max_positions", None) or TOKENS)
        costs = step_costs(network, ROWS, length)
        whole = next(cost for cost in costs if cost.part == FORWARD)
        facts["step"] = f"{ROWS} rows of {length} tokens; shares are of the forward pass"
        facts["costs"] = [
            {
                "part": cost.part,
                "operations": f"{cost.flops:,}",
                "of_operations": f"{cost.flops / max(1, whole.flops):.1%}",
                "seconds": f"{cost.seconds:.4f}",
                "of_seconds": f"{cost.seconds / whole.seconds:.1%}",
            }
            for cost in costs
        ]
    return facts
