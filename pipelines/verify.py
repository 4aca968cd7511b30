"""`dragoman verify RUN`: checks that a run saw an undisturbed run's batches, and that its files are unchanged.

dragoman verify demo            the run `demo` of paths.runs; a path names one elsewhere

Exit code 0: nothing differs. 1: something differs, and is named. 2: a mistake in the command.
"""

from dataclasses import asdict

from dragoman.conf import compose, showing
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks.verification import verify


def task(config: Config) -> int:
    """Verifies the run `name` and prints what was compared."""
    checks = verify(config)
    different = [check.what for check in checks if not check.same]
    lines = [f"{check.what:<11}  {'same' if check.same else 'differs':<7}  {check.detail}" for check in checks]
    verdict = f"differs, first in its {different[0]}" if different else "nothing differs"
    showing.show(map(asdict, checks), lambda: "\n".join([*lines, f"{config.name}: {verdict}"]))
    return compose.FAILED if different else compose.OK
