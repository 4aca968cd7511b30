"""`dragoman verify RUN`: checks that a run saw an undisturbed run's batches, and that its weights are unchanged.

dragoman verify demo            the run `demo` of paths.runs; a path names one elsewhere
dragoman verify demo verify.format=json
dragoman verify demo verify.recompute=LAST   also trains the steps between the last two checkpoints again (ALL, or
                                             a number of random intervals)

Exit code 0: nothing differs. 1: something differs, and is named. 2: a mistake in the command.
"""

import json
import sys
from dataclasses import asdict

from dragoman.conf import compose
from dragoman.pipelines.config import VerifyRoot
from dragoman.pipelines.tasks.verification import verify


def main(argv: list[str]) -> int:
    """Runs the command; returns its exit code."""
    return compose.run(task, VerifyRoot, argv, "verify")


def task(config: VerifyRoot) -> int:
    """Verifies the run `name` and prints what was compared."""
    checks = verify(config)
    same = all(one.result != "differs" for one in checks)
    if config.verify.format == "json":
        print(json.dumps({"run": config.name, "same": same, "checks": [asdict(one) for one in checks]}))
    else:
        for one in checks:
            print(f"{one.what:<7}  {one.result:<12}  {one.detail}")
        unlinked = any(one.what == "records" and one.result == "not recorded" for one in checks)
        found = "nothing differs in what it recorded, which is no chain" if unlinked else "nothing differs"
        first = next((one for one in checks if one.result == "differs"), None)
        print(f"{config.name}: {found if first is None else f'differs, first in its {first.what}'}")
    return compose.OK if same else compose.FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
