"""Each row of the lectures and of the product's card, tiny, through the command line or HTTP: it must never break.

A row trains a network for a few steps and asks it for what it is there for. Nothing here looks inside of the product.
"""

import contextlib
import io
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deepl
import httpx
import numpy as np
import psutil
import pytest
from libretranslatepy import LibreTranslateAPI

from dragoman.services import cli
from tests.services.jobs.team import COMMAND, REPOSITORY, environment, serving, state, wait
from tests.warm import Command

TIMEOUT = 300.0  # seconds: a busy machine takes its time to start a process
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SHORT = [
    "cluster.backend=local",
    *("loader.batch_tokens=512", "train.precision=fp32", "tracking.system_metrics=false"),
    *("train.max_steps=6", "train.checkpoint_every=2", "train.evaluate_every=6", "train.average_last=1"),
    *("evaluate.sentences=12", "evaluate.trials=10", "evaluate.samples=0"),
]
BEAM = ["decode.beam=2", "decode.max_ratio=0.5", "decode.max_extra=4"]
PAIRS = ["corpus=everyday", "pair=en-de", "corpus.pairs=400", "tokenizer.vocabulary=300", *BEAM]
SMALL = {
    "transformer": ["width=16", "heads=2", "feed_forward=16", "encoder_layers=1", "decoder_layers=1"],
    "rnnsearch": ["width=16", "encoder_width=8", "embedding=8"],
    "rnnenc": ["width=16", "embedding=8", "layers=1"],
    "prefixlm": ["width=16", "heads=2", "feed_forward=16", "layers=1"],
    "gpt": ["width=16", "heads=2", "feed_forward=16", "layers=1"],
    "bert": ["width=16", "heads=2", "feed_forward=16", "layers=2"],
    "rnnlm": ["embedding=8", "width=8", "layers=1", "tie=false"],
    "statelm": ["width=16", "layers=1"],
}
PNG = b"\x89PNG"


def variant(*values: str) -> Any:
    """A row of a table that goes the way of another one: among the long tests."""
    return pytest.param(*values, marks=pytest.mark.long)


class Home:
    """A user's home and its command line, in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"

    def __call__(self, *words: str, code: int = 0) -> str:
        """Runs a command line that ends with `code`; returns what it prints."""
        printed = io.StringIO()
        handler = logging.StreamHandler(printed)  # pytest takes what is logged from the standard output
        root, level = logging.getLogger(), logging.getLogger().level
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                ended = cli.main(words)
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
        assert ended == code, f"dragoman {' '.join(words)}: exit code {ended}\n{printed.getvalue()}"
        return printed.getvalue()

    def train(self, model: str, name: str, *words: str) -> str:
        """Trains a tiny network of the file conf/model/`model`; returns what the training prints."""
        sizes = [f"model.{size}" for size in SMALL[model.split("_")[0]]]
        return self("train", *SHORT, f"model={model}", *sizes, f"name={name}", "registry.register=false", *words)


@pytest.fixture(scope="module")
def dragoman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with the shards of 400 pairs, and a file with the English sentences."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_HOME", str(folder))
        home = Home(folder)
        assert "train" in home("shard", *PAIRS, "cluster.backend=local")
        yield home


@pytest.fixture(scope="module")
def sentences(dragoman: Home) -> Path:
    """English sentences, one a line: the shards turned back into text."""
    dragoman("unpack", *PAIRS, f"output={dragoman.folder / 'text'}")
    (file,) = (dragoman.folder / "text").glob("train*.en*")
    assert len(file.read_text(encoding="utf-8").splitlines()) > 300
    return file


@pytest.fixture(scope="module")
def few(sentences: Path) -> Path:
    """The first twelve of them: enough to be translated."""
    file = sentences.with_name("few.txt")
    lines = sentences.read_text(encoding="utf-8").splitlines()[:12]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


@contextlib.contextmanager
def endpoint(*words: str) -> Iterator[str]:
    """Runs `dragoman serve` on a free port; yields its address. SIGTERM ends it well."""
    process = Command(("serve", "serve.port=0", *words), os.environ)
    try:
        said = []
        while not (line := process.stdout.readline()).startswith("http"):
            said.append(line)
            assert line and process.poll() is None, "".join(said)
        yield line.strip()
    finally:
        process.terminate()
        ended = process.wait(TIMEOUT)
        process.stdout.close()
    assert ended == 0


# The card: shards, exact training, scores, registry, promotion, endpoint.


def test_a_killed_training_goes_on_and_is_the_same_run(dragoman: Home) -> None:
    words = ["train", *PAIRS, *SHORT, "train.max_steps=30", "train.evaluate_every=30", "registry.register=false"]
    words += [f"model.{size}" for size in SMALL["transformer"]]
    dragoman(*words, "name=whole")
    killed = Command((*words, "name=killed"), os.environ)
    steps = dragoman.runs / "killed" / "steps.jsonl"
    deadline = time.monotonic() + TIMEOUT
    while not steps.exists() or steps.read_text().count('"step": 8') + steps.read_text().count('"step":8') == 0:
        assert killed.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(TIMEOUT)
    assert "goes on" in dragoman(*words, "name=killed")
    whole, resumed = (
        [json.loads(line) for line in (dragoman.runs / name / "steps.jsonl").read_text().splitlines()]
        for name in ("whole", "killed")
    )
    assert [line["batch"] for line in resumed if "batch" in line] == [
        line["batch"] for line in whole if "batch" in line
    ]
    assert "killed" in dragoman("verify", "killed", *PAIRS)


def test_two_versions_are_scored_promoted_rolled_back_and_served(dragoman: Home) -> None:
    for name in ("first", "second"):
        words = [*PAIRS, *SHORT, f"name={name}", f"seed={len(name)}", "registry.name=everyday"]
        said = dragoman("train", *words, *[f"model.{size}" for size in SMALL["transformer"]])
        assert "version" in said
    said = dragoman("evaluate", *PAIRS, "name=first", "evaluate.sentences=12", "evaluate.trials=10")
    assert "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in said
    for version in (1, 2):
        forced = ["promote.force=true", "promote.reason=tiny", f"promote.version={version}"]
        dragoman("promote", *PAIRS, "registry.name=everyday", *forced)
    assert "version 1" in dragoman("rollback", *PAIRS, "registry.name=everyday")
    assert "champion" in dragoman("models")
    assert dragoman("translate", "I am tired.", "bundle=models:/everyday@champion").strip()

    with endpoint("bundle=models:/everyday@champion") as address:
        libre = LibreTranslateAPI(address)
        text = libre.translate("I am tired.", "en", "de")
        assert isinstance(text, str) and libre.languages()[0]["targets"] == ["de"]
        client = deepl.Translator("key", server_url=address, send_platform_info=False)
        answer = client.translate_text("I am tired.", source_lang="EN", target_lang="DE")
        assert isinstance(answer, deepl.TextResult) and answer.text == text
        inputs = {"dataframe_split": {"columns": ["text"], "data": [["I am tired."]]}}
        (row,) = httpx.post(f"{address}/invocations", json=inputs, timeout=TIMEOUT).json()["predictions"]
        assert text in (row, *(row.values() if isinstance(row, dict) else ()))
        asked = {"q": "I am tired.", "source": "en", "target": "de", "alignment": True, "alternatives": 1}
        found = httpx.post(f"{address}/translate", json=asked, timeout=TIMEOUT)
        assert found.headers["X-Model-Version"] == "1" and {"alignment", "alternatives"} <= set(found.json())
        html = {"q": "<p>I am <b>tired</b>.</p>", "source": "en", "target": "de", "format": "html"}
        assert "<b>" in httpx.post(f"{address}/translate", json=html, timeout=TIMEOUT).json()["translatedText"]
        assert (
            httpx.get(f"{address}/", headers={"Accept": "text/html"}, timeout=TIMEOUT)
            .headers["content-type"]
            .startswith("text/html")
        )


# The lectures: word vectors.


@pytest.fixture(scope="module")
def words(dragoman: Home, sentences: Path) -> list[str]:
    """The settings of shards of words, for word vectors."""
    settings = ["corpus=text", "pair=en", f"corpus.train.file={sentences}", "tokenizer=vocabulary", "corpus.name=text"]
    dragoman("shard", *settings, "cluster.backend=local")
    return settings


@pytest.mark.parametrize(
    "model",
    [
        *("one_hot", "tfidf", "glove", "skipgram", "cbow_hierarchical"),
        *map(variant, ("bag_of_words", "skipgram_hierarchical", "skipgram_softmax", "cbow")),
    ],
)
def test_word_vectors_have_neighbours_analogies_and_a_picture(dragoman: Home, words: list[str], model: str) -> None:
    sizes = [] if model in ("one_hot", "bag_of_words", "tfidf") else ["model.width=8"]
    offline = [
        "registry.register=false",
        "tracking.offline=true",
        "tracking.system_metrics=false",
        "cluster.backend=local",
    ]
    dragoman("train", *words, f"model={model}", *sizes, f"name={model}", "vectors.epochs=1", *offline)
    near = dragoman("neighbours", "you", f"query.vectors={model}", "query.k=3", "format=json")
    assert len(json.loads(near.splitlines()[-1])["neighbours"]) == 3
    found = dragoman("analogy", "he", "she", "his", f"query.vectors={model}", "query.k=2", "format=json")
    assert json.loads(found.splitlines()[-1])["answers"]
    pictures = list((dragoman.runs / model).rglob("*.png"))
    assert pictures and all(picture.read_bytes().startswith(PNG) for picture in pictures)


# The lectures: language models, decoder-only and recurrent, by characters and by words.


@pytest.fixture(scope="module")
def text(request: pytest.FixtureRequest, dragoman: Home, sentences: Path) -> list[str]:
    """The settings of shards of English text, by characters and by words."""
    settings = ["corpus=text", "pair=en", f"corpus.train.file={sentences}", f"tokenizer={request.param}"]
    settings += [
        f"corpus.name={request.param}",
        "corpus.cut.valid=0.1",
        "corpus.cut.test=0.1",
        "corpus.cut.run=20",
        "registry=language",
    ]
    dragoman("shard", *settings, "cluster.backend=local")
    return settings


@pytest.mark.parametrize(
    ("text", "model"),
    [
        *(("characters", model) for model in ("rnnlm_lstm", "rnnlm_attention", "gpt_tiny", "statelm_selective")),
        *(variant("characters", model) for model in ("rnnlm_tanh", "rnnlm_relu", "gpt_modern", "statelm_linear")),
        ("vocabulary", "rnnlm_gru"),
    ],
    indirect=["text"],
)
def test_a_language_model_continues_a_text_and_names_the_next(dragoman: Home, text: list[str], model: str) -> None:
    name = f"{model}-{text[3].removeprefix('tokenizer=')}"
    said = dragoman.train(model, name, *text, "loader.context_length=32")
    assert re.search(r"perplexity|bits", said)
    run = str(dragoman.runs / name)
    drawn = dragoman("generate", "you are", f"bundle={run}", "generate.max_tokens=5", "format=json")
    assert "you are" in json.loads(drawn.splitlines()[-1])["prompt"]
    asked = [f"bundle={run}", "predict.best=3", "format=json"]
    likely = json.loads(dragoman("predict", "you", *asked).splitlines()[-1])
    (dragoman.folder / "text.txt").write_text("you are tired\n", encoding="utf-8")
    assert len(likely["steps"][0]["tokens"]) == 3
    assert dragoman("score", f"bundle={run}", f"input={dragoman.folder / 'text.txt'}").strip()


def test_a_masked_encoder_fills_masks_and_its_vectors_are_of_the_sentence(dragoman: Home, sentences: Path) -> None:
    settings = ["corpus=text", "pair=en", f"corpus.train.file={sentences}", "tokenizer=bpe", "tokenizer.vocabulary=200"]
    settings += [
        "corpus.name=masked",
        "corpus.cut.valid=0.1",
        "corpus.cut.test=0.1",
        "corpus.cut.run=20",
        "registry=masked",
    ]
    dragoman("shard", *settings, "cluster.backend=local")
    dragoman.train("bert_tiny", "masked", *settings, "model.norm=pre")
    run = str(dragoman.runs / "masked")
    asked = [f"bundle={run}", "format=json"]
    filled = json.loads(dragoman("predict", "You [MASK] tired.", *asked).splitlines()[-1])
    assert filled["steps"][0]["tokens"]
    output = dragoman.folder / "vectors.npy"
    same = [f"bundle={run}", f"output={output}", "format=npy"]
    dragoman("embed", "You are tired.", *same)
    assert np.load(output).shape[-1] == 16
    uses = dragoman(
        "neighbours", "you", "query.in=Where are you?", f"query.texts={sentences}", f"query.vectors={run}", "query.k=2"
    )
    assert "[you]" in uses or "[You]" in uses


# The lectures: encoder-decoder, attention, Transformer, prefix LM; pre-training; rescoring; classes, tags; summaries.


@pytest.mark.parametrize(
    "model",
    [
        *("rnnenc", "rnnsearch_additive", "transformer_tiny", "prefixlm_tiny"),
        *map(variant, ("rnnenc_reversed", "rnnsearch_dot", "rnnsearch_general", "rnnsearch_scaled_dot")),
    ],
)
def test_a_translation_network_translates_and_shows_where_it_looked(dragoman: Home, few: Path, model: str) -> None:
    said = dragoman.train(model, model, *PAIRS)
    assert "BLEU|nrefs:1" in said
    run = dragoman.runs / model
    output = dragoman.folder / "out.txt"
    words = [f"input={few}", f"output={output}", f"bundle={run}", "decode.min_length=3"]
    if model.startswith("rnnenc"):  # no attention; its sentence states are the vectors of its texts
        dragoman("translate", *words)
        states = dragoman.folder / "states.npy"
        dragoman("embed", "I am tired.", f"bundle={run}", f"output={states}", "format=npy")
        assert np.load(states).shape[0] == 1
    else:
        picture = dragoman.folder / f"{model}.png"
        dragoman("translate", *words, f"translate.attention={picture}")
        assert picture.read_bytes().startswith(PNG)
    assert len(output.read_text(encoding="utf-8").splitlines()) == 12


@pytest.mark.parametrize("noise", ["infilling", "spans"])
def test_an_encoder_decoder_learns_by_denoising(dragoman: Home, noise: str) -> None:
    sentinels = [*PAIRS, "tokenizer.sentinels=8", f"paths.shards={dragoman.folder / 'sentinels'}"]
    if not (dragoman.folder / "sentinels").exists():
        dragoman("shard", *sentinels, "cluster.backend=local")
    said = dragoman.train("transformer_tiny", noise, *sentinels, f"loader.denoise={noise}", "evaluate.split=valid")
    assert "nats" in said
    started = dragoman.train("transformer_tiny", f"from-{noise}", *sentinels, f"train.init_from={noise}")
    assert "BLEU|nrefs:1" in started


def test_an_n_best_list_is_rescored(dragoman: Home, sentences: Path) -> None:
    if not (dragoman.runs / "rescoring").exists():
        dragoman.train("transformer_tiny", "rescoring", *PAIRS)
    run, lists = dragoman.runs / "rescoring", dragoman.folder / "lists.txt"
    lists.write_text("0 ||| Ich bin müde. ||| ||| -1.0\n0 ||| Ich bin Tom. ||| ||| -1.5\n", encoding="utf-8")
    source, output = dragoman.folder / "source.txt", dragoman.folder / "best.txt"
    source.write_text("I am tired.\n", encoding="utf-8")
    files = [f"rerank.nbest={lists}", f"rerank.source={source}", f"output={output}"]
    dragoman("rerank", f"bundle={run}", *files)
    assert output.read_text(encoding="utf-8").strip() in ("Ich bin müde.", "Ich bin Tom.")
    dragoman("score", f"bundle={run}", f"score.source={source}", f"score.target={output}", "format=json")


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        *(("classes", "classifier_transformer"), ("tags", "tagger_recurrent")),
        *(variant("classes", "classifier_recurrent"), variant("tags", "tagger_transformer")),
    ],
)
def test_texts_get_classes_and_words_get_tags(dragoman: Home, sentences: Path, labels: str, model: str) -> None:
    texts = sentences.read_text(encoding="utf-8").splitlines()[:200]
    file = dragoman.folder / f"{labels}.tsv"
    if not file.exists():
        lines = [f"{text}\t{'question' if text.endswith('?') else 'statement'}" for text in texts]
        if labels == "tags":
            words = [[(word, "NAME" if word[0].isupper() else "WORD") for word in text.split()] for text in texts]
            lines = ["".join(f"{word}\t{tag}\n" for word, tag in pairs) for pairs in words if pairs]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    shards = ["corpus=labelled", f"corpus.labels={labels}", "pair=en", f"corpus.train.file={file}", "registry=labels"]
    shards += ["tokenizer=bpe", "tokenizer.vocabulary=200", "corpus.cut.valid=0.2", "corpus.cut.test=0.2"]
    shards += [
        f"corpus.name={labels}",
        *(["corpus.rows=conll", "corpus.columns=[text,label]"] if labels == "tags" else []),
    ]
    dragoman("shard", *shards, "cluster.backend=local")
    sizes = ["model.width=16", "model.layers=1"] + (
        ["model.heads=2", "model.feed_forward=16"] if "trans" in model else []
    )
    pooling = ["model.pooling=attention"] if labels == "classes" else []
    sizes = [*sizes, *pooling, f"name={model}", "registry.register=false"]
    assert "accura" in dragoman("train", *SHORT, *shards, f"model={model}", *sizes)
    asked = [f"bundle={dragoman.runs / model}", "format=json"]
    answer = dragoman("predict", "Are you tired?", *asked)
    assert any(label in answer for label in ("question", "statement", "NAME", "WORD"))


def test_summaries_are_scored_with_rouge(dragoman: Home, sentences: Path) -> None:
    texts = sentences.read_text(encoding="utf-8").splitlines()[:200]
    file = dragoman.folder / "summaries.tsv"
    file.write_text("".join(f"{text}\t{' '.join(text.split()[:2])}\n" for text in texts), encoding="utf-8")
    shards = ["corpus=tsv", "pair=en-en", "corpus.name=summaries", f"corpus.train.file={file}", "tokenizer=bpe", *BEAM]
    shards += ["tokenizer.vocabulary=150", "corpus.cut.valid=0.1", "corpus.cut.test=0.1", "corpus.leaks=source"]
    shards += ["corpus.clean.max_ratio=0"]
    dragoman("shard", *shards, "cluster.backend=local")
    said = dragoman.train("transformer_tiny", "summaries", *shards, "evaluate.split=valid")
    assert "ROUGE" in said.upper()


def test_networks_are_compared_by_score_length_and_attention(dragoman: Home) -> None:
    budget = ["compare.name=tiny", "compare.max_tokens=2000", "compare.map_count=1", "evaluate.trials=10"]
    sizes = [f"+compare.model.{size}" for size in (*SMALL["transformer"], "encoder_width=8", "embedding=8")]
    said = dragoman("compare", *PAIRS, *SHORT, *budget, *sizes, "models=[rnnenc,rnnsearch_additive,transformer_tiny]")
    assert all(model in said for model in ("rnnenc", "rnnsearch_additive", "transformer_tiny"))
    pictures = {path.stem for path in (dragoman.runs / "tiny" / "pictures").glob("*.png")}
    assert {"learning", "length", "alignment-1", "heads-transformer_tiny"} <= pictures


def test_a_network_s_parameters_stand_in_a_table(dragoman: Home) -> None:
    if not (dragoman.runs / "table").exists():
        dragoman.train("transformer_tiny", "table", *PAIRS)
    table = dragoman("inspect", str(dragoman.runs / "table"), "inspect.parameters=true")
    assert "parameters" in table and "D x" in table.replace("×", "x")


# The job service: a queue that a kill does not lose, real Ray, pages.


@pytest.mark.long
def test_a_job_goes_through_the_queue_over_a_kill_of_the_service(tmp_path: Path) -> None:
    """With a real Ray: the service is killed while a training runs, is started again, and the job succeeds."""
    quiet = ["service.endpoint=false", "service.tracking=false", "service.port=0", "service.ports=0", "service.cpus=2"]

    def dragoman(*words: str) -> str:
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=REPOSITORY,
            env=environment(tmp_path),
            text=True,
            capture_output=True,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ended(job: str) -> bool:
        return state(tmp_path, job) in ("succeeded", "failed", "stopped")

    sizes = [f"model.{size}" for size in SMALL["transformer"]]
    said = tmp_path / "up.txt"
    with said.open("w") as file:
        up = subprocess.Popen(
            [*COMMAND, "up", *quiet], cwd=REPOSITORY, env=environment(tmp_path), stdout=file, stderr=file
        )
    wait(lambda: "ready" in said.read_text(), said.read_text)
    shard = dragoman("submit", "shard", *PAIRS).split()[-1]
    wait(lambda: ended(shard), said.read_text)
    train = dragoman("submit", "train", *PAIRS, *SHORT[1:], *sizes, "train.max_steps=40", "cluster.workers=1").split()[
        -1
    ]
    wait(lambda: state(tmp_path, train) == "running", said.read_text)
    children = psutil.Process(up.pid).children(recursive=True)
    up.kill()
    up.wait()
    for process in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    with serving(tmp_path, *quiet) as address:
        wait(lambda: ended(train), lambda: dragoman("logs", train))
        assert state(tmp_path, train) == "succeeded", dragoman("logs", train)
        assert train in dragoman("jobs")
        if CHROMIUM is not None:
            look_at_the_pages(address, train)


def look_at_the_pages(address: str, job: str) -> None:
    """The list and the job's page in a browser, without an error of a script."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        page.goto(address, timeout=TIMEOUT * 1000)
        page.get_by_text(job).first.click(timeout=TIMEOUT * 1000)
        assert "succeeded" in page.content() and not problems
        browser.close()
