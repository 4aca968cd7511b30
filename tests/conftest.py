"""Fixtures that many tests share."""

import copy
import functools
import gc
import io
import json
import logging
import os
import random
import shutil
import string
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from omegaconf import DictConfig, ListConfig, OmegaConf

from dragoman.model.errors import remember_interrupt
from dragoman.pipelines.tracking import server, version
from tests.s3_server import Proxy, s3_server

logging.raiseExceptions = False  # a handler that a test left behind writes to its closed stream

# Before anything imports NumPy or torch: with several workers (pytest-xdist) each takes one core.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"

pytest_plugins = ["tests.cpu_limit", "tests.random_shards"]

# Pieces of text that break programs: control and invisible characters, line ends that are none, marks that pile up or
# turn the direction, what looks like markup or code, and letters of many scripts in composed and decomposed form.
NAUGHTY = [
    *"\0\a\b\t\v\f\r\x1b\x1c\x7f\x85\xa0\xad\u061c\u180e\u200b\u200d\u200e\u202e\u2028\u2029\u2066\u2069\u3000\ufe0f\ufeff",
    *(
        "e\u0301",
        "\u0301" * 30,
        "\u1100\u1161\u11a8",
        "각",
        "ﬀ",
        "ß",
        "ı",
        "İ",
        "🏳\u200d🌈",
        "👩🏽\u200d🚒",
        "🇩🇪",
        "𝔘𝔫𝔦",
    ),
    *("<script>alert('&amp;')</script>", "'; DROP TABLE t; --", "%s%n${7*7}{{x}}", "=cmd|'/c calc'!A0", "\\u0000"),
    *("<s>", "</s>", "<pad>", "<unk>", "▁", "⁇", "\ufffd", "\ufffe", "\U0010ffff"),
    *("العربية", "עברית", "日本語", "ไทย", "हिन्दी", "Ελλάδα", "русский", *string.punctuation, *"aZ09 "),
]


def pytest_collection_finish() -> None:
    """What is imported by now stays: the collector of cycles need not go through it again for every 700 new objects."""
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.fixture(autouse=True)
def no_interrupt_of_another_test() -> None:
    """A process has one interrupt and ends; the tests' process goes on."""
    remember_interrupt(None)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """torch computes with one thread: small products are faster, and more threads round them otherwise."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def small_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """In this process a new database of MLflow is a copy of the first, and versions are registered without our code.

    Its tables take seconds to make; the code is 230 files, which each version takes along and every reader fetches.
    """
    make, first = server.make_database, tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    code = tmp_path_factory.mktemp("code") / "model"
    code.mkdir()

    @functools.wraps(make)  # for the test of the function itself
    def copy(path: Path) -> None:
        if not path.exists():
            make(first)
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".{path.name}.copy")
            shutil.copyfile(first, part)
            part.rename(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "make_database", copy)
        patch.setattr(version, "MODEL_PACKAGE", code)
        yield


@pytest.fixture(scope="session", autouse=True)
def files_of_settings_read_once() -> Iterator[None]:
    """In this process Hydra parses a file of conf/ once: each composition reads ten, over half of its time."""
    load, parsed = OmegaConf.load, {}

    def once(file: IO[str]) -> DictConfig | ListConfig:
        text = file.read()
        if text not in parsed:
            parsed[text] = load(io.StringIO(text))
        return copy.deepcopy(parsed[text])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OmegaConf, "load", staticmethod(once))
        yield


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora beside the repository; cases that need it skip where it is missing."""
    return real_corpora()


def real_corpora() -> Path:
    root = Path(__file__).resolve().parents[2] / "shared" / "corpora"
    if not root.is_dir():
        pytest.skip("the real corpora (../shared/corpora) are not on this machine")
    return root


@pytest.fixture(scope="session", params=["made", "collected"])
def naughty(request: pytest.FixtureRequest) -> list[str]:
    """Lines that break programs: made here of what is known to, and the Big List of Naughty Strings.

    None has a line feed or a lone surrogate.
    """
    if request.param == "collected":
        path = real_corpora() / "naughty" / "blns.json"
        strings: list[str] = json.loads(path.read_text(encoding="utf-8"))
        return [text.replace("\n", " ") for text in strings]
    rng = random.Random(1)
    lines = ["".join(rng.choices(NAUGHTY, k=rng.randint(1, 12))) for _ in range(300)]
    return ["", " ", "\ufeff", "null", "-1e400", "../" * 20, "x" * 400, *lines]


@pytest.fixture(scope="session")
def s3_process() -> Iterator[Proxy]:
    with s3_server("bucket") as proxy:
        yield proxy


@pytest.fixture
def s3(s3_process: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """A local S3 with the bucket `bucket` behind a proxy without faults; this process and its children know of it.

    Its objects stay for the session: a test takes a folder of its own.
    """
    s3_process.faults.clear()
    s3_process.requests.clear()
    for name, value in s3_process.environment.items():
        monkeypatch.setenv(name, value)
    return s3_process
