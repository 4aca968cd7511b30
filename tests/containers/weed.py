#!/usr/bin/env python3
"""`weed server ... -s3`, as docker-compose.yml calls it: moto's S3, which knows the keys and keeps what it is told.

moto holds objects in memory; the requests that made them lie in the volume and are played again at a start.
"""

import json
import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

options = {name.lstrip("-"): value for name, _, value in (word.partition("=") for word in sys.argv[1:])}
port = int(options["s3.port"])
record = Path(options["dir"]) / "requests.jsonl"
os.environ |= {"MOTO_ENABLE_RECORDING": "1", "MOTO_RECORDER_FILEPATH": str(record)}

from moto.moto_api import recorder  # noqa: E402 - it reads the variables
from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: E402
from werkzeug.serving import run_simple  # noqa: E402

identities = json.loads(Path(options["s3.config"]).read_text(encoding="utf-8"))["identities"]
keys = [one["accessKey"] for identity in identities for one in identity["credentials"]]
moto = DomainDispatcherApplication(create_backend_app)
ready = threading.Event()


def application(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/healthz":
        start("200 OK" if ready.is_set() else "503 Service Unavailable", [("Content-Length", "0")])
        return [b""]
    signed = unquote(environ.get("HTTP_AUTHORIZATION", "") + environ["QUERY_STRING"])  # the latter where presigned
    if not any(f"Credential={key}/" in signed for key in keys):
        start("403 Forbidden", [("Content-Type", "application/xml")])
        return [b"<Error><Code>AccessDenied</Code><Message>no key of ours</Message></Error>"]
    found: Iterable[bytes] = moto(environ, start)
    return found


def replay() -> None:
    if record.exists():
        recorder.replay_recording(f"http://127.0.0.1:{port}")
    ready.set()


threading.Timer(1.0, replay).start()
run_simple("0.0.0.0", port, application, threaded=True)
