"""Word vectors on pages: a map, neighbours and analogies, of a job and of a registered version."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from scipy.sparse import csr_array

from dragoman.model.bundles.directory import bundle_hash
from dragoman.model.bundles.vectors import save_vectors
from dragoman.model.errors import ServiceError, UserError
from dragoman.model.text.tokenizer import SPECIAL_PIECES, TokenizerPair
from dragoman.model.text.words import WordTokenizer
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.word2vec import Word2VecConfig
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages import models
from dragoman.services.jobs.pages.wordmap import LETTER, LINE, _uncovered
from dragoman.services.jobs.service import vectors, vectors_worker
from dragoman.services.jobs.states import State
from tests.services.jobs.pages.world import HOSTILE, World

ROYAL = ["man", "woman", "king", "queen", "apple", "pear", HOSTILE, "الكلمة"]
PLACES = np.array(
    [
        *([1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0]),
        *([0, 0, 0, 1], [0.1, 0, 0, 1], [0, 0.1, 0, 1], [0, 0.05, 0.1, 1]),
    ],
    np.float32,
)


def bundle(folder: Path, words: list[str] = ROYAL, table: Any = PLACES) -> Path:
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *words])
    save_vectors(
        folder,
        **{"words": words, "counts": np.arange(len(words), 0, -1), "tables": {"vectors": table}},
        **{"config": Word2VecConfig(width=table.shape[1]), "tokenizer": TokenizerPair(tokenizer, tokenizer)},
        facts={"pair": "en"},
    )
    return folder


@pytest.fixture(scope="module")
def job(world: World) -> Job:
    found = world.job("royal", State.SUCCEEDED, words=["model=skipgram"])
    bundle(world.home / "runs" / "royal" / "bundle")
    return found


def rows(page: str) -> list[tuple[str, str]]:
    return re.findall(r"<tr><td><a [^>]*><bdi>(.*?)</bdi></a></td><td class=\"num\">([^<]*)</td></tr>", page)


def test_a_finished_job_has_a_map_with_every_word_once(browser: httpx.Client, job: Job) -> None:
    assert f'href="/jobs/{job.id}/words"' in browser.get(f"/jobs/{job.id}").text
    page = browser.get(f"/jobs/{job.id}/words").text
    labels = re.findall(r'<text x="(-?\d+)" y="(-?\d+)"[^>]*>(.*?)</text>', page)
    assert [word for _, _, word in labels][:6] == ROYAL[:6] and len(labels) == len(ROYAL)
    assert all(0 <= int(number) <= 1000 for x, y, _ in labels for number in (x, y))
    assert HOSTILE not in page and "&lt;script&gt;" in page
    assert page.count("h0") == len(ROYAL) and 'viewBox="-40 -40 1080 1080"' in page
    other = browser.get(f"/jobs/{job.id}/words?map=t-SNE").text
    assert "t-SNE keeps neighbours" in other and len(re.findall("<text ", other)) == len(ROYAL)


def test_a_word_has_neighbours_and_stands_in_the_middle(browser: httpx.Client, job: Job) -> None:
    page = browser.get(f"/jobs/{job.id}/words", params={"word": "king"}).text
    found = rows(page)
    expected = Embeddings(ROYAL, None, PLACES).neighbours("king")
    assert [(word, float(value)) for word, value in found[:3]] == [
        (one.word, round(one.similarity, 3)) for one in expected[:3]
    ]
    label = re.search(r'<text x="(-?\d+)" y="(-?\d+)" class="here">king</text>', page)
    box = re.search(r'viewBox="([^"]*)" role="img"', page)
    assert label is not None and box is not None
    x, y, wide, high = map(float, box[1].split())
    assert (x + wide / 2, y + high / 2) == (float(label[1]), float(label[2]))
    assert 'class="near">queen</text>' in page and "no. 3 by frequency" in page
    unknown = browser.get(f"/jobs/{job.id}/words", params={"word": "qeen"}).text
    assert "is not among the 8 words" in unknown and "queen" in unknown
    assert browser.get(f"/jobs/{job.id}/words", params={"word": "x" * 5000}).status_code == 200


def test_an_analogy_is_answered_beside_the_map(browser: httpx.Client, job: Job) -> None:
    page = browser.get(f"/jobs/{job.id}/words", params={"a": "man", "b": "king", "c": "woman"}).text
    (best,) = Embeddings(ROYAL, None, PLACES).analogy("man", "king", "woman")
    assert rows(page)[0] == ("queen", f"{best.similarity:.3f}")
    assert 'value="king"' in page
    assert "is not among" in browser.get(f"/jobs/{job.id}/words?a=man&b=king&c=wom").text
    assert rows(browser.get(f"/jobs/{job.id}/words?a=man&b=king").text) == []  # not complete


def test_jobs_without_word_vectors_here_have_no_such_page(world: World, browser: httpx.Client, job: Job) -> None:
    plain = world.job("plain", State.SUCCEEDED)
    running = world.job("still", State.RUNNING)
    bundle(world.home / "runs" / "still" / "bundle")
    linked = world.job("linked-words", State.SUCCEEDED)
    elsewhere = bundle(world.home / "elsewhere" / "bundle")
    (world.home / "runs" / "linked-words" / "bundle").symlink_to(elsewhere)
    inner = world.job("linked-file", State.SUCCEEDED)
    copied = bundle(world.home / "runs" / "linked-file" / "bundle")
    (copied / "model.safetensors").unlink()
    (copied / "model.safetensors").symlink_to(elsewhere / "model.safetensors")
    for one in (plain, running, linked, inner):  # a job may not show another's files by a link
        assert browser.get(f"/jobs/{one.id}/words").status_code == 404, one.run
        assert f"/jobs/{one.id}/words" not in browser.get(f"/jobs/{one.id}").text
    damaged = world.job("damaged", State.SUCCEEDED)
    path = bundle(world.home / "runs" / "damaged" / "bundle") / "words.json"
    path.write_text(path.read_text().replace("king", "kong"))
    answer = browser.get(f"/jobs/{damaged.id}/words")
    assert answer.status_code == 400 and "not the file that was saved" in answer.text
    assert browser.get(f"/jobs/{job.id}/words").status_code == 200  # the process goes on


def test_a_version_shows_the_vectors_of_its_job(
    world: World, browser: httpx.Client, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = bundle_hash(world.home / "runs" / "royal" / "bundle")
    world.others.tags = {"bundle_kind": "vectors", "dragoman.job": job.id, "bundle_hash": digest}  # type: ignore[attr-defined]
    try:
        page = browser.get("/models/demo-en-de").text
        assert 'href="/models/demo-en-de/words?version=2"' in page
        page = browser.get("/models/demo-en-de/words", params={"version": "2", "word": "apple"}).text
        assert rows(page)[0][0] in ("pear", "الكلمة", "&lt;script&gt;alert(1)&lt;/script&gt;") and 'value="2"' in page
        assert browser.get("/models/demo-en-de/words?version=9").status_code == 404
        monkeypatch.setattr(models, "sees_texts", lambda *_: False)  # another owner's
        assert browser.get("/models/demo-en-de/words?version=2").status_code == 404
        assert "/words" not in browser.get("/models/demo-en-de").text
        monkeypatch.undo()
    finally:
        del world.others.tags  # type: ignore[attr-defined]  # as above
    assert browser.get("/models/demo-en-de/words?version=2").status_code == 404  # a translation model
    assert browser.get("/models/none/words").status_code == 404


def test_a_version_from_elsewhere_is_fetched_from_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Registry:
        def __init__(self, uri: str, cache: Path) -> None:
            assert (uri, cache) == ("http://mlflow", tmp_path / "cache")

        def resolve(self, reference: str) -> str:
            return reference

        def fetch(self, version: str) -> Path:
            assert version == "models:/words/3"
            return bundle(tmp_path / "fetched")

    monkeypatch.setattr(vectors_worker, "Registry", Registry)
    place = {"uri": "http://mlflow", "cache": str(tmp_path / "cache"), "reference": "models:/words/3"}
    found = vectors_worker.Worker().answer({"word": "", "analogy": [], "map": "pca", **place})
    assert found["total"] == len(ROYAL) and found["row"] is None


def test_of_many_words_the_most_frequent_are_on_the_map(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(1500)]
    table = np.random.default_rng(1).standard_normal((1500, 8)).astype(np.float32)
    folder = bundle(tmp_path / "many", words, table)
    found = vectors_worker.Worker().answer({"folder": str(folder), "word": "w1400", "analogy": [], "map": "pca"})
    assert found["words"] == words[: vectors_worker.MAPPED["pca"]] and found["row"] == 1400
    assert len(found["points"]) == vectors_worker.MAPPED["pca"] and len(found["neighbours"]["neighbours"]) == 10


def test_sparse_vectors_are_reduced_before_they_are_projected() -> None:
    table = np.zeros((40, 60), np.float32)
    table[:20, :5], table[20:, 30:35] = 1.0, 1.0
    table[np.arange(40), np.arange(40)] += 0.1
    embeddings = Embeddings([f"w{number}" for number in range(40)], None, csr_array(table))
    places = np.array(vectors_worker.make_map(embeddings, "pca"))
    assert abs(places[:20, 0].mean() - places[20:, 0].mean()) > 500  # the two groups are apart
    single = Embeddings(["one"], None, csr_array(table[:1]))
    assert vectors_worker.make_map(single, "pca") == [[500, 500]]


def test_labels_do_not_cover_more_important_ones() -> None:
    words, points = ["first", "second", "third"], [[0, 0], [10, 5], [10, int(LINE) + 10]]
    assert _uncovered(words, points, [0, 1, 2], 1.0) == {0, 2}
    assert _uncovered(words, points, [1, 0, 2], 1.0) == {1, 2}
    assert _uncovered(words, [[0, 0], [int(7 * LETTER), 0], [500, 0]], [0, 1, 2], 1.0) == {0, 1, 2}


def test_the_process_comes_again_after_it_has_gone_and_refuses_a_crowd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = bundle(tmp_path / "bundle")
    question = {"folder": str(folder), "word": "king", "analogy": [], "map": "pca"}
    process = vectors.VectorsProcess()
    try:
        assert process.ask(question)["row"] == 2
        assert process._process is not None
        process._process.kill()
        assert process.ask(question)["row"] == 2
        with pytest.raises(UserError, match="no finished word vectors"):
            process.ask({**question, "folder": str(tmp_path)})
        monkeypatch.setattr(process, "_waiting", vectors.threading.BoundedSemaphore(1))
        assert process._waiting.acquire(blocking=False)
        with pytest.raises(ServiceError, match="too many"):
            process.ask(question)
        process._waiting.release()
        monkeypatch.setattr(vectors, "PATIENCE", 0.0)
        with pytest.raises(ServiceError, match="no answer within 0 s"):
            process.ask(question)
        assert process._process is None
    finally:
        process.close()


def test_torch_is_not_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from dragoman.services.jobs.service.vectors_worker import Worker; "
        f"Worker().answer({{'folder': {str(bundle(tmp_path / 'b'))!r}, 'word': 'king', 'analogy': [], 'map': 'pca'}}); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
