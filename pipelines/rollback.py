"""`dragoman rollback`: makes the previous champion the champion again. The endpoint follows.

dragoman rollback
dragoman rollback promote.reason="complaints about numbers"
"""

from dragoman.pipelines.config import Config
from dragoman.pipelines.tracking.promotion import rollback
from dragoman.pipelines.tracking.registry import Registry


def task(config: Config) -> int:
    """Returns exit code 0 if the alias moved."""
    registry = Registry(config.tracking, config.registry)
    outcome = rollback(registry, config.promote.reason, config.paths.local(config.paths.mlflow) / "promote.lock")
    print(f"{config.registry.name}: {outcome.message}")
    return 0
