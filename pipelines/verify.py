"""`dragoman verify RUN`: checks that a run saw an undisturbed run's batches, and that its weights are unchanged.

dragoman verify demo            the run `demo` of paths.runs; a path names one elsewhere
dragoman verify demo verify.format=json
dragoman verify demo verify.recompute=LAST   also trains the steps between the last two checkpoints again (ALL, or
                                             a number of random intervals)

Exit code 0: nothing differs. 1: something differs, and is named. 2: a mistake in the command.
"""

import json
from dataclasses import asdict

from dragoman.conf import compose
from dragoman.pipelines.config import VerifyRoot
from dragoman.pipelines.tasks.verification import verify


def task(config: VerifyRoot) -> int:
    """Verifies the run `name` and prints what was compared."""
    checks = verify(config)
    same = all(check.result != "differs" for check in checks)
    if config.verify.format == "json":
        print(json.dumps({"run": config.name, "same": same, "checks": [asdict(check) for check in checks]}))
    else:
        for check in checks:
            print(f"{check.what:<7}  {check.result:<12}  {check.detail}")
        unlinked = any(check.what == "records" and check.result == "not recorded" for check in checks)
        verdict = "nothing differs in what it recorded, which is no chain" if unlinked else "nothing differs"
        first = next((check for check in checks if check.result == "differs"), None)
        print(f"{config.name}: {verdict if first is None else f'differs, first in its {first.what}'}")
    return compose.OK if same else compose.FAILED
