"""The clients that are npm packages: a script each, which node runs in the folder where they are installed."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.clients.checks import Outcome, Server, judge

SCRIPTS = ("deepl-node", "libretranslate", "libretranslate-ts", "translate")  # npm's names, and those of their scripts
PATIENCE = 60.0  # seconds for all questions of a client


def ask_node_clients(server: Server, folder: Path, wanted: Sequence[str] = ()) -> Iterator[Outcome]:
    """Yields what each client of the table, or of `wanted`, got from the server; `folder` has `node_modules`."""
    node = shutil.which("node")
    for name in SCRIPTS:
        if wanted and name not in wanted:
            continue
        about = folder / "node_modules" / name / "package.json"
        if node is None or not about.is_file():
            how = "install node" if node is None else f"npm install {name}, in the folder of --node"
            yield Outcome(name, "", "", "not installed", how)
            continue
        version = str(json.loads(about.read_text(encoding="utf-8"))["version"])
        yield from _ask(node, name, version, server, folder)


def _ask(node: str, name: str, version: str, server: Server, folder: Path) -> Iterator[Outcome]:
    place = Path(__file__).parent / "node"
    code = "\n".join((place / f"{part}.mjs").read_text(encoding="utf-8") for part in ("start", name))
    command = [node, "--no-warnings", "--input-type=module", "--eval", code, "--", json.dumps(server.record())]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        yield Outcome(name, version, "", "failed", f"no answer in {PATIENCE:g} s")
        return
    for line in done.stdout.splitlines():
        found = json.loads(line)
        if "error" in found:
            yield Outcome(name, version, found["asked"], "failed", found["error"])
        else:
            expected = server.expected if found["translates"] else None
            yield judge(name, version, found["asked"], found.get("answer"), expected)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or [f"node ended with {done.returncode}"]
        reason = next((line for line in said if re.match(r"\w*Error\b", line)), said[-1])
        yield Outcome(name, version, "", "failed", reason)
