"""The demo's order of events, its report, and that it leaves nothing behind; the steps are stand-ins."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from dragoman.model.shards.manifest import Manifest, write_manifest
from dragoman.model.storage import remote
from dragoman.model.storage.places import local_folder
from dragoman.services.commands import demo_steps
from dragoman.services.commands.demo import DemoRoot, demo, main
from tests.pipelines.processes import wait_for
from tests.s3_server import Proxy

REPOSITORY = Path(__file__).resolve().parents[3]
SERVER = """
import json, pathlib, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("X-Model-Name", "m")
        self.send_header("X-Model-Version", "7")
        self.send_header("X-Run-Id", "abc")
        self.send_header("X-Manifest-Hash", "f" * 64)
        self.end_headers()
        self.wfile.write(json.dumps(
            {"translatedText": [text.upper() for text in asked["q"]]}).encode())

    def log_message(self, *_):
        pass

signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path("stopped").touch(), sys.exit(0)))
server = HTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
"""


@pytest.fixture
def root(tmp_path: Path) -> DemoRoot:
    shards, run = tmp_path / "shards", tmp_path / "runs" / "demo"
    shards.mkdir()
    run.mkdir(parents=True)
    for language, word in (("en", "dog"), ("de", "Hund")):
        (shards / f"test.{language}.txt").write_text("".join(f"{word} {number}\n" for number in range(20)))
    texts = {"test": {language: {"file": f"test.{language}.txt"} for language in ("en", "de")}}
    write_manifest(shards, Manifest("demo", ["en", "de"], {"files": []}, "<u2", {}, texts=texts))
    (run / "release.json").write_text(json.dumps({"run": "demo", "version": "7", "bleu": "BLEU = 90.1 nrefs:1|..."}))
    return DemoRoot(
        "demo",
        "en-de",
        {"root": str(tmp_path), "shards": str(shards), "runs": str(tmp_path / "runs"), "cache": str(tmp_path)},
        {"uri": "sqlite:///x.db"},
        {"name": "m", "alias": "champion"},
    )


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Verb -> the Python that stands in for it; every step also writes down its words."""
    scripts = dict.fromkeys(("shard", "train", "promote"), "") | {"serve": SERVER}

    def command(name: str, words: list[str]) -> list[str]:
        note = f"import sys; print(*sys.argv[1:], file=open({str(tmp_path / 'log')!r}, 'a'))\n"
        return [sys.executable, "-c", note + scripts[name], name, *words]

    monkeypatch.setattr(demo_steps, "command", command)
    monkeypatch.chdir(tmp_path)
    return scripts


def answers(printed: str) -> bool:
    """Whether anything listens at the address that the demo printed."""
    address = re.search(r"http://127\.0\.0\.1:(\d+)", printed)
    assert address is not None
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(address[1]))) == 0


def test_all_steps_run_in_order_and_the_report_names_everything(
    root: DemoRoot, steps: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment=demo", f"paths.root={tmp_path}", f"paths.shards={root.paths['shards']}"]  # serve has no shards
    assert demo(root, words) == 0
    log = (tmp_path / "log").read_text().splitlines()
    assert log == [" ".join([name, *words]) for name in ("shard", "train", "promote")] + [
        f"serve bundle=models:/m@champion {words[1]} serve.port=0"
    ]
    out = capsys.readouterr().out
    assert not answers(out)
    assert all(said in out for said in ("DOG 10", "Hund 10", "90.1 on", "m version 7", "demo.log"))
    assert "mlflow ui --backend-store-uri sqlite:///x.db" in out
    assert f"dragoman serve bundle=models:/m@champion {words[1]}\n" in out
    assert (tmp_path / "stopped").exists()


def test_a_home_in_a_bucket_is_read_by_way_of_what_the_steps_have_left_here(
    root: DemoRoot, steps: dict[str, str], tmp_path: Path, s3: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    remote.write("s3://bucket/demo/shards/x/manifest.json", (tmp_path / "shards" / "manifest.json").read_bytes())
    home = {"shards": "s3://bucket/demo/shards/x", "runs": "s3://bucket/demo/runs", "cache": str(tmp_path / "cache")}
    home["root"] = "s3://bucket/demo"
    for name, place in (("shards", home["shards"]), ("runs", home["runs"])):
        here = local_folder(place, home["cache"])
        here.parent.mkdir(parents=True, exist_ok=True)
        Path(root.paths[name]).rename(here)
    root.paths = home
    assert demo(root, ["experiment=demo"]) == 0
    out = capsys.readouterr().out
    assert "DOG 10" in out and "90.1 on" in out


@pytest.mark.parametrize(("step", "code", "whole"), [("shard", 2, 2), ("serve", 2, 2), ("promote", 1, 0)])
def test_a_step_that_fails_ends_the_demo_with_its_exit_code_unless_the_champion_stays(
    root: DemoRoot, steps: dict[str, str], step: str, code: int, whole: int, capsys: pytest.CaptureFixture[str]
) -> None:
    steps[step] = f"print('because', file=sys.stderr); sys.exit({code})"
    assert demo(root, []) == whole
    err = capsys.readouterr().err
    assert (f"{step} ended with exit code {code}" in err) == ("because" in err) == bool(whole)


def test_the_endpoint_is_stopped_when_asking_it_fails(root: DemoRoot, steps: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "shards" / "test.en.txt").unlink()
    with pytest.raises(FileNotFoundError):
        demo(root, [])
    assert (tmp_path / "stopped").exists()


def test_a_killed_demo_lets_its_step_end_in_order(tmp_path: Path) -> None:
    """The step takes as long as it takes; the demo says its own line after it."""
    step = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1.0), print('KILLED', flush=True), sys.exit(143)))\n"
        "print('begun', flush=True)\n"
        "time.sleep(60)"
    )
    script = f"""
import sys
from dragoman.services import cli
from dragoman.services.commands import demo_steps
demo_steps.command = lambda name, words: [sys.executable, "-c", {step!r}]
sys.exit(cli.main(["demo"]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        env={**os.environ, "DRAGOMAN_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        log = tmp_path / "demo.log"
        wait_for(lambda: log.exists() and "begun" in log.read_text(), process)
        children = psutil.Process(process.pid).children()
        os.kill(process.pid, signal.SIGTERM)
        printed = process.stdout.read()
        assert process.wait(120) == 128 + signal.SIGTERM
    assert printed.splitlines()[1:] == ["KILLED", "dragoman demo: interrupted"]
    assert not any(one.is_running() for one in children)


def test_mistakes_in_overrides_are_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment=none"]) == 2
    assert main(["nokey=1"]) == 2
    assert "none" in capsys.readouterr().err
