"""Works on this machine's service, prints a table, and writes drill.json here."""

import json
import logging
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from bench.drill.drill import Result, drill
from bench.drill.faults import FAULTS
from bench.drill.scene import Scene, ended_by_signals
from dragoman.conf import compose, showing
from dragoman.model.errors import UserError, unknown
from dragoman.model.files import atomic_write
from dragoman.model.plural import plural
from dragoman.services.jobs.client import table, verbs
from dragoman.services.jobs.client.entries import address
from dragoman.services.jobs.client.settings import Root

REPORT = Path("drill.json")
logger = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> int:
    """Returns 1 if the training's result differs from an undisturbed one."""
    names = [word for word in argv if "=" not in word and not word.startswith("-")]

    def work(root: Root) -> int:
        for name in names:
            if name not in FAULTS:
                raise unknown("drill", name, FAULTS)
        home = Path(root.paths["root"]).absolute()
        if not (home / "service" / "address.json").exists():
            where = "a drill hits processes of this machine: run it where `dragoman up` runs"
            raise UserError(f"paths.root={home}: no job service runs on this folder; {where}")
        where = address(root)
        with (
            verbs.client(root.jobs, where, home=home) as service,
            verbs.client(root.jobs, where, "drill-other", home) as other,
        ):
            scene = Scene(service, other, home, f"drill-{secrets.token_hex(3)}")
            with ended_by_signals(scene):
                result = drill(scene, names or list(FAULTS))
        atomic_write(REPORT, result.json())
        showing.show([json.loads(result.json())], lambda: told(result))
        logger.info("written: %s", REPORT)
        return compose.FAILED if result.problems else compose.OK

    settings = [word for word in argv if word not in names and re.match(r"[+~]*(jobs[.=]|paths\.root=|-)", word)]
    return compose.run(work, Root, settings, "drill")


def told(result: Result) -> str:
    """Returns the table and the checks as text."""
    rows: list[Sequence[object]] = [("FAULT", "LASTED", "RECOVERED IN", "STEPS AGAIN", "ATTEMPTS", "WHAT")]
    for one in result.rows:
        if one.recovered is None:
            rows.append((one.fault, "-", "-", "-", "-", one.note))
        else:
            lasted = f"{one.lasted:.1f} s" if one.lasted > 0.5 else "-"
            rows.append((one.fault, lasted, f"{one.recovered:.1f} s", one.lost_steps, one.attempts, one.about))
    done = f"{plural(result.steps, 'step')} in {plural(result.attempts, 'attempt')}"
    proof = f"{done}, each once; dragoman verify finds nothing"
    return f"{table.table(rows)}\n{'; '.join(result.problems) or proof}"
