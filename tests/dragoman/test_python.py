"""The Python interface on a small corpus: the whole way, twice in one process, from a thread, and its errors."""

import logging
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dragoman

WORDS: dict[str, Any] = {"corpus": "everyday", "corpus.pairs": 600, "tokenizer.vocabulary": 200}
TINY_RUN: dict[str, Any] = {
    **{"model.width": 16, "model.heads": 2, "model.feed_forward": 16},
    **{"model.encoder_layers": 1, "model.decoder_layers": 1},
    **{"train.max_steps": 4, "train.checkpoint_every": 4, "train.evaluate_every": 4, "train.optimizer.warmup_steps": 1},
    **{"evaluate.sentences": 20, "evaluate.samples": 0, "decode.length_penalty": 1.0},
    **{"cluster.backend": "local", "tracking.system_metrics": False},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def run(home: Path) -> dragoman.Run:
    """A finished training, made in a thread, as a notebook's widget would."""
    dragoman.shard(**WORDS)
    found: list[dragoman.Run] = []
    handlers = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: found.append(dragoman.train(name="tiny", **WORDS, **TINY_RUN)))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is handlers
    return found[0]


def test_shards_are_made_once(run: dragoman.Run, capfd: pytest.CaptureFixture[str]) -> None:
    again = dragoman.shard(**WORDS)
    assert again.found
    assert again.languages == ("en", "de")
    assert again.records["train"] > 0
    assert (again.folder / "manifest.json").is_file()
    assert capfd.readouterr() == ("", "")


def test_a_run_tells_what_came_out_and_the_same_call_finds_it(
    run: dragoman.Run, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (run.name, run.version) == ("tiny", "1")
    assert run.bundle == run.folder / "bundle"
    assert 0 <= run.scores["bleu"] <= 100
    assert dragoman.train(name="tiny", **WORDS, **TINY_RUN) == run
    assert capfd.readouterr() == ("", "")
    dragoman.train(name="tiny", **WORDS, **TINY_RUN, progress=True)
    assert "is of these weights already" in capfd.readouterr().err
    assert not logging.getLogger("dragoman").handlers


def test_what_is_evaluated_is_what_the_training_said(run: dragoman.Run) -> None:
    found = dragoman.evaluate(name="tiny", **TINY_RUN)  # on the only shards of the home
    assert found.bleu == pytest.approx(run.scores["bleu"])
    assert found.chrf == pytest.approx(run.scores["chrf"])
    assert "BLEU" in found.report


def test_a_version_is_promoted_and_found_by_each_of_its_names(run: dragoman.Run) -> None:
    done = dragoman.promote("promote.force=true", "promote.reason=it is new", **WORDS)
    assert (done.accepted, done.version) == (True, "1")
    text = "The dog sees the man."
    expected = dragoman.load(run.folder).translate(text)
    for name in ("tiny", run.bundle, done.model, f"{done.model}@champion", f"models:/{done.model}/1"):
        model = dragoman.load(name)
        assert model.translate(text) == expected, name
    assert (model.version, model.languages, model.kind) == ("1", ("en", "de"), "translation")


def test_texts_are_translated_in_order_and_two_models_stand_side_by_side(run: dragoman.Run) -> None:
    one, two = dragoman.load(run.folder), dragoman.load(run.folder, **{"decode.beam": 1})
    texts = ["The dog sees the man.", "", "The man sees the dog."]
    found = one.translate(texts, nbest=2)
    assert [answer.text for answer in found] == [one.translate(text).text for text in texts]
    assert [len(answer.alternatives) for answer in found] == [2, 0, 2]
    assert found[0].alternatives[0].text == found[0].text
    assert len(two.translate(texts)) == 3
    assert one.embed(texts).shape[0] == 3
    with pytest.raises(dragoman.DragomanError, match=r"nbest=2: the search finds 1 to 1"):
        two.translate(texts, nbest=2)
    with pytest.raises(dragoman.DragomanError, match="holds a translation model: neighbours is not for it"):
        one.neighbours("dog")


@pytest.mark.long
def test_word_vectors_answer(home: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the dog sees the cat\nthe cat hears the dog\n" * 40)
    words: dict[str, Any] = {"corpus": "text", "pair": "en", "tokenizer": "words", "corpus.train.file": text}
    dragoman.shard(**words)
    quick = {"vectors.epochs": 1, "cluster.backend": "local", "tracking.offline": True, "registry.register": False}
    quick |= {"vectors.evaluate.pictures": False, "model.width": 8}
    made = dragoman.train("model=skipgram", "registry=vectors", name="vectors", **words, **quick)
    near = dragoman.load(made.folder).neighbours("dog", 2)
    assert len(near) == 2 and all(isinstance(one.word, str) and -1.01 <= one.similarity <= 1.01 for one in near)
    with pytest.raises(dragoman.DragomanError, match="horse"):
        dragoman.load(made.folder).neighbours("horse")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: dragoman.train("train.max_stps=3"), "Did you mean 'max_steps'"),
        (lambda: dragoman.train(**{"train.max_steps": "many"}), "train.max_steps"),
        (lambda: dragoman.train("--cfg"), "is no setting"),
        (lambda: dragoman.train(name=object()), "is no text, number, list or mapping"),
        (lambda: dragoman.train(config="absent.yaml"), "--config absent.yaml: No such file"),
        (lambda: dragoman.train(name="x", **{"corpus.name": "absent"}), "dragoman shard corpus.name=absent"),
        (lambda: dragoman.train(seed=2), "make some: dragoman shard corpus=tsv"),
        (lambda: dragoman.shard(seed=2), "name a corpus: dragoman shard corpus=tsv"),
        (lambda: dragoman.load("absent"), "'absent' is neither a bundle's directory nor a run"),
        (lambda: dragoman.load("absent"), "mlflow.db is not there: no model has been trained here yet"),
        (lambda: dragoman.load("absent@champion"), "mlflow.db is not there: no model has been trained here yet"),
        (lambda: dragoman.submit("train"), "no job service runs here"),
    ],
)
def test_a_mistake_is_one_exception_with_the_commands_message(
    call: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dragoman.DragomanError) as problem:
        call()
    assert said in str(problem.value)
    assert problem.value.mistake


def test_within_an_application_of_hydra_its_own_configuration_stays(tmp_path: Path) -> None:
    from hydra import compose, initialize_config_dir

    (tmp_path / "mine.yaml").write_text("seed: 7\n")
    with initialize_config_dir(config_dir=str(tmp_path), version_base="1.3"):
        with pytest.raises(dragoman.DragomanError):
            dragoman.load("absent", **{"paths.root": tmp_path})
        assert compose("mine").seed == 7
