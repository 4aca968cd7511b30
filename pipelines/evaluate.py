"""`dragoman evaluate`: a bundle's scores on a held-out set, and against other bundles' when asked.

dragoman evaluate evaluate.split=valid                             the run `name`
dragoman evaluate evaluate.bundle=RUN evaluate.against=OTHER_RUN   language models: the likelihood of the same text
dragoman evaluate evaluate.bundle=RUN evaluate.against=[glove,tfidf,one_hot] vectors=english ...
"""

import logging

from conf import compose
from model.bundles.directory import bundle_kind
from model.inference.kinds import KINDS
from pipelines.config import Config
from pipelines.tasks.base import task_of

logger = logging.getLogger(__name__)


def task(config: Config) -> int:
    """Evaluate, print, keep the record beside the bundle, then compare with the others.

    Raises:
        UserError: nothing of a name, no such split, bundles of different kinds.
    """
    settings = config.evaluate
    directory = config.bundle_dir(settings.bundle, "evaluate.bundle")
    against = [settings.against] if isinstance(settings.against, str) else settings.against or []
    kind = bundle_kind(directory)
    row, load = task_of(kind), KINDS[kind].load
    bundle = load(directory)
    rivals = [load(config.bundle_dir(rival, "evaluate.against")) for rival in against]
    measured = row.evaluate(config, bundle)
    print(measured.report)
    files = row.write(measured, directory.parent)
    logger.info(f"kept in {' and '.join(map(str, files))}")
    row.measure_more(config, bundle)
    if rivals:
        print("", row.compare(config, measured, rivals, directory.parent), sep="\n")
    return compose.OK
