"""The clients that are npm packages: a script each, which node runs in the folder where they are installed."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.clients.checks import Outcome, Server, judge

SCRIPTS = {  # npm's name -> the file of its script
    "@ai-sdk/openai-compatible": "ai-sdk-openai-compatible",
    "@google-cloud/translate": "google-cloud-translate",
    "@googleapis/translate": "googleapis-translate",
    "@langchain/openai": "langchain-openai",
    **{name: name for name in ("deepl-node", "libretranslate", "libretranslate-ts", "openai", "translate")},
}
PATIENCE = 60.0  # seconds for all questions of a client


def ask_node_clients(server: Server, folder: Path, wanted: Sequence[str] = ()) -> Iterator[Outcome]:
    """Yields what each client of the table, or of `wanted`, got from the server; `folder` has `node_modules`."""
    node = shutil.which("node")
    for name, script in SCRIPTS.items():
        if wanted and name not in wanted:
            continue
        about = folder / "node_modules" / name / "package.json"
        if node is None or not about.is_file():
            how = "install node" if node is None else f"npm install {name}, in the folder of --node"
            yield Outcome(name, "", "", "not installed", how)
            continue
        version = str(json.loads(about.read_text(encoding="utf-8"))["version"])
        yield from _ask(node, name, script, version, server, folder)


def _ask(node: str, name: str, script: str, version: str, server: Server, folder: Path) -> Iterator[Outcome]:
    place = Path(__file__).parent / "node"
    code = "\n".join((place / f"{part}.mjs").read_text(encoding="utf-8") for part in ("start", script))
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
