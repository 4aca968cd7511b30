"""LibreTranslate around our export, as a peer of `endpoint`: the same weights, vocabulary, texts and lengths.

Its environment is made on first use over the network (peers.py); then it needs none. TUNED was the fastest of three
settings in quick runs.
"""

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.peers import ROOT, peer_environment, peer_python

STARTS_WITHIN = 120.0  # seconds
TUNED = {"ARGOS_INTER_THREADS": "2", "ARGOS_INTRA_THREADS": "1", "ARGOS_COMPUTE_TYPE": "int8", "LT_THREADS": "4"}


def pack(export: Path, sentencepiece: Path, home: Path) -> None:
    """Writes the export as Argos packages. There are two, since LibreTranslate looks for more on the network if it
    has fewer."""
    for source, target in (("en", "de"), ("de", "en")):
        package = home / "packages" / f"{source}_{target}"
        shutil.copytree(export, package / "model")
        shutil.copy(sentencepiece, package / "sentencepiece.model")
        config = package / "model" / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"add_source_eos": True}))  # we add it ourselves
        codes = {"from_code": source, "from_name": source, "to_code": target, "to_name": target}
        (package / "metadata.json").write_text(json.dumps({"package_version": "1.0", "argos_version": "1.9", **codes}))


@contextlib.contextmanager
def serving_libretranslate(
    export: Path, sentencepiece: Path, home: Path, length: int, beam: int
) -> Iterator[tuple[str, psutil.Process]]:
    """Yields the address of LibreTranslate over the export, and its process."""
    pack(export, sentencepiece, home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(length), "--port", str(port), "--disable-web-ui"]
    places = {"HOME": str(home), "ARGOS_PACKAGES_DIR": str(home / "packages"), "PYTHONPATH": str(ROOT)}
    homes = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("DATA", "CONFIG", "CACHE")}
    settings = {**TUNED, "ARGOS_BEAM_SIZE": str(beam), **places, **homes}
    with (home / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [peer_python("libretranslate"), "-m", "bench.libretranslate_server", *words],
            cwd=home,
            env=peer_environment() | settings,
            stdout=log,
            stderr=log,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(address, process, home / "log.txt")
        yield address, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)


def _wait(address: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Returns once the server answers."""
    until = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/languages", timeout=10) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"bench endpoint: LibreTranslate did not start:\n{log.read_text()[-2000:]}")
