"""How long Ray is to wait between SIGTERM and SIGKILL when a job is stopped: three seconds, unless it is told more."""

import math
from collections.abc import Sequence

from conf import compose
from model.errors import UserError
from model.runs.paths import PACE
from model.storage.mirror import local_folder
from model.untrusted import finite, read_object

WAIT_VARIABLE = "RAY_JOB_STOP_WAIT_TIME_S"
LONGEST = 3600.0  # seconds that Ray is told at most


def stop_wait(words: Sequence[str], least: float) -> dict[str, str]:
    """The variable for the job of a command line, in whole seconds: what its run measured that it needs to stop in
    order, where an earlier start of it can be seen from here, and `least` at least."""
    try:
        values = compose.values(words)
        run = local_folder(str(values["paths"]["runs"]), str(values["paths"]["cache"])) / str(values["name"])
        measured = finite(read_object(run / PACE).get("stop_seconds")) or 0.0
    except UserError:
        measured = 0.0
    return {WAIT_VARIABLE: str(math.ceil(max(min(measured, LONGEST), least)))}
