"""Decides how long Ray waits between SIGTERM and SIGKILL when a job is stopped: three seconds by default."""

import math
from collections.abc import Sequence

from conf import compose
from model.errors import UserError
from model.runs.paths import PACE
from model.storage.mirror import local_folder
from model.untrusted import finite, read_object

WAIT_VARIABLE = "RAY_JOB_STOP_WAIT_TIME_S"
LONGEST = 3600.0  # seconds that Ray waits at most


def stop_wait(words: Sequence[str], least: float) -> dict[str, str]:
    """Returns the variable for the job of a command line, in whole seconds: the time that its run needed to stop in
    order, if an earlier start of it can be seen from here, and at least `least`."""
    try:
        values = compose.values(words)
        run = local_folder(str(values["paths"]["runs"]), str(values["paths"]["cache"])) / str(values["name"])
        measured = finite(read_object(run / PACE).get("stop_seconds")) or 0.0
    except UserError:
        measured = 0.0
    return {WAIT_VARIABLE: str(math.ceil(max(min(measured, LONGEST), least)))}
