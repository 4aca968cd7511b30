"""Corpora by address: the same shards as from a folder, fetched once, and only from where they may be."""

import bz2
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.storage import remote
from dragoman.model.storage.retry import NotThereError
from dragoman.pipelines.corpus.read.file_names import SPLITS
from dragoman.pipelines.corpus.read.remote_files import with_local_files
from dragoman.pipelines.corpus.settings import CorpusConfig, SplitFiles
from tests.s3_server import Proxy

PLACE = "s3://bucket/corpora"


@pytest.fixture
def corpus(s3: Proxy) -> CorpusConfig:
    remote.write(f"{PLACE}/train.en", b"a dog\na cat\n")
    remote.write(f"{PLACE}/train.de.bz2", bz2.compress(b"ein Hund\neine Katze\n"))
    train = SplitFiles(source=f"{PLACE}/train.{{source}}", target=f"{PLACE}/train.{{target}}.bz2")
    return CorpusConfig(train=train)


def test_files_come_here_under_their_own_names_and_once(corpus: CorpusConfig, s3: Proxy, tmp_path: Path) -> None:
    found = with_local_files(corpus, "en-de", str(tmp_path))
    (source,), (target,) = found.train.source or (), found.train.target or ()
    assert Path(source).read_text(encoding="utf-8") == "a dog\na cat\n"
    assert Path(target).name == "train.de.bz2"
    s3.requests.clear()
    assert with_local_files(corpus, "en-de", str(tmp_path)) == found
    assert not [request for request in s3.requests if request.startswith("GET")]
    remote.write(f"{PLACE}/train.en", b"another\n")
    with_local_files(corpus, "en-de", str(tmp_path))
    assert Path(source).read_text(encoding="utf-8") == "another\n"


def test_a_root_may_be_an_address(corpus: CorpusConfig, tmp_path: Path) -> None:
    below = CorpusConfig(root=PLACE, needs_root=True, train=SplitFiles(file="train.{source}"))
    found = with_local_files(below, "en-de", str(tmp_path))
    assert found.root is None and not found.needs_root
    assert Path((found.train.file or [""])[0]).name == "train.en"


@pytest.mark.parametrize("split", SPLITS)
def test_the_files_of_every_split_come_here(corpus: CorpusConfig, tmp_path: Path, split: str) -> None:
    found = with_local_files(replace(corpus, **{split: corpus.train}), "en-de", str(tmp_path))
    assert getattr(found, split) == found.train


@pytest.mark.parametrize("name", ["pipe:cat /etc/passwd", "ftp://host/x", f"{PLACE}/*.txt", "s3://user:pw@bucket/x"])
def test_what_cannot_be_fetched_is_refused(s3: Proxy, tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError):
        with_local_files(CorpusConfig(train=SplitFiles(file=name)), "en-de", str(tmp_path))
    assert not s3.requests


def test_what_is_not_there_is_named(s3: Proxy, tmp_path: Path) -> None:
    with pytest.raises(NotThereError, match=f"{PLACE}/nothing"):
        with_local_files(CorpusConfig(train=SplitFiles(file=f"{PLACE}/nothing")), "en-de", str(tmp_path))


def test_plain_names_stay_as_they_are(tmp_path: Path) -> None:
    plain = CorpusConfig(root="data", train=SplitFiles(file="a.txt"))
    assert with_local_files(plain, "en-de", str(tmp_path)) is plain
    assert not list(tmp_path.iterdir())
