"""Addresses of MLflow's pages, relative to the server's address.

MLflow 3 shows one of two views. Without the parameter `workflowType`, a browser that has never chosen one opens the
view for applications of language models, which hides curves and model versions. The parameter follows the route, after
the `#`, because MLflow routes by the fragment.
"""

from urllib.parse import quote

VIEW = "?workflowType=machine_learning"
HOME = f"#/experiments{VIEW}"


def run_page(experiment: str, run: str, part: str = "") -> str:
    """Returns the address of a run, or of a part of it: `artifacts/config.yaml`."""
    return f"#/experiments/{experiment}/runs/{run}{f'/{part}' if part else ''}{VIEW}"


def version_page(model: str, version: str) -> str:
    """Returns the address of a version of a registered model."""
    return f"#/models/{quote(model, safe='')}/versions/{quote(version, safe='')}{VIEW}"
