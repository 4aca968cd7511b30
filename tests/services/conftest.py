"""A small real bundle, and what stands around it."""

import contextlib
import logging
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.vectors import save_vectors
from dragoman.model.networks.bert import EncoderOnly, EncoderOnlyConfig
from dragoman.model.networks.rnnlm import RecurrentLanguage, RecurrentLanguageConfig
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.tokenizer import TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import train_pair
from dragoman.model.word_vectors.word2vec import Word2VecConfig
from dragoman.pipelines.tracking.registry import Registry, register_bundle
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.settings import RegistryConfig, TrackingConfig
from dragoman.services.endpoint import key_store
from dragoman.services.jobs.ledger import database as ledger_database
from dragoman.services.store.database import Database
from dragoman.services.store.upgrade import Schema, upgrade
from tests.services.listening import CHROMIUM

LINES = [
    "the dog sees the man .",
    "a house is old .",
    "where is my friend ?",
    "der hund sieht den mann .",
    "ja , gut !",
]
# Words by frequency; a vector is (royal, female, animal, 1).
WORDS = {
    "man": (0, 0, 0, 1),
    "woman": (0, 1, 0, 1),
    "king": (1, 0, 0, 1),
    "queen": (1, 1, 0, 1),
    "dog": (0, 0, 1, 1),
    "cat/dog": (0, 1, 1, 1),
    "größe": (0.4, 0.1, 0.3, 0.1),
}
MakeBundle = Callable[..., Path]


@pytest.fixture(scope="session", autouse=True)
def tables_made_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """In this process the tables of a service are made once: its other new sqlite files are copies of the first."""
    folder = tmp_path_factory.mktemp("tables")

    def copy(database: Database, schema: Schema) -> None:
        file = Path(str(database.engine.url.database)) if database.is_sqlite else None
        if file is None or file.stat().st_size:
            upgrade(database, schema)
            return
        first = folder / f"{schema.version_table}.db"
        if not first.exists():
            upgrade(database, schema)
            with contextlib.closing(sqlite3.connect(file)) as connection:
                connection.execute("VACUUM INTO ?", (str(first),))
        else:
            shutil.copyfile(first, file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_database, "upgrade", copy)
        patch.setattr(key_store, "upgrade", copy)
        yield


@pytest.fixture(scope="session")
def tokenizers() -> TokenizerPair:
    """Characters, one vocabulary for both sides."""
    config = TokenizerConfig(name="characters", type="characters", vocabulary=100)
    return train_pair(config, LINES, LINES)


@pytest.fixture(scope="session")
def make_bundle(tokenizers: TokenizerPair) -> MakeBundle:
    """make_bundle(directory, seed) -> a bundle of a random network, with every fact that a trained one has."""

    def make(directory: Path, seed: int = 1, **facts: object) -> Path:
        torch.manual_seed(seed)
        config = TransformerConfig(
            width=16, heads=2, feed_forward=16, encoder_layers=1, decoder_layers=1, max_positions=64
        )
        size = tokenizers.source.vocabulary
        network = Transformer(config, size, size).eval()
        save_bundle(
            directory,
            network=network,
            config=config,
            tokenizers=tokenizers,
            facts={
                "pair": "en-de",
                "manifest_hash": "ab" * 32,
                "run": {"id": "r" * 32, "name": "small"},
                "decode": {"beam": 3, "max_extra": 5, "max_ratio": 1.0},
                **facts,
            },
        )
        return directory

    return make


@pytest.fixture(scope="session")
def bundle(make_bundle: MakeBundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One bundle for all tests that only read it."""
    return make_bundle(tmp_path_factory.mktemp("bundles") / "small")


@pytest.fixture(scope="session")
def language_bundle(tokenizers: TokenizerPair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of characters, random but for its wish to end now and then."""
    torch.manual_seed(1)
    config = RecurrentLanguageConfig(cell="gru", embedding=8, width=8, layers=1)
    network = RecurrentLanguage(config, tokenizers.source.vocabulary).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    directory = tmp_path_factory.mktemp("bundles") / "language"
    facts = {"pair": "en", "manifest_hash": "ef" * 32, "run": {"id": "l" * 32, "name": "language"}}
    save_bundle(directory, network=network, config=config, tokenizers=tokenizers.source, facts=facts)
    return directory


@pytest.fixture(scope="session")
def masked_bundle(tokenizers: TokenizerPair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked model of characters, with random weights."""
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"width": 8, "heads": 2, "feed_forward": 8, "layers": 1, "max_positions": 32}
    config = EncoderOnlyConfig(**sizes)
    directory = tmp_path_factory.mktemp("bundles") / "masked"
    network = EncoderOnly(config, tokenizers.source.vocabulary).eval()
    save_bundle(directory, network=network, config=config, tokenizers=tokenizers.source, facts={"pair": "en"})
    return directory


@pytest.fixture(scope="session")
def make_vectors(tokenizers: TokenizerPair) -> MakeBundle:
    """make_vectors(directory, scale) -> a bundle of seven words' vectors."""

    def make(directory: Path, scale: float = 1.0, **facts: object) -> Path:
        save_vectors(
            directory,
            words=list(WORDS),
            counts=np.arange(len(WORDS), 0, -1) * 100,
            tables={"vectors": scale * np.array(list(WORDS.values()), np.float32)},
            config=Word2VecConfig(width=4),
            tokenizer=tokenizers,
            facts={"pair": "en", "manifest_hash": "cd" * 32, "run": {"id": "v" * 32, "name": "words"}, **facts},
        )
        return directory

    return make


@pytest.fixture(scope="session")
def vectors(make_vectors: MakeBundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vectors bundle of the run `words` in a folder of runs, for all tests that only read it."""
    return make_vectors(tmp_path_factory.mktemp("runs") / "words" / "bundle")


@pytest.fixture(scope="session")
def tracking(tmp_path_factory: pytest.TempPathFactory, make_bundle: MakeBundle) -> TrackingConfig:
    """A sqlite registry that holds the model `m`: version 1 is champion, version 2 is not."""
    root = tmp_path_factory.mktemp("registry")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = TrackingConfig(
        uri=f"sqlite:///{root}/mlflow.db",
        artifacts=str(root / "artifacts"),
        system_metrics=False,
        flush_timeout=120,
        register_timeout=600,
    )
    for seed in (1, 2):
        bundle = make_bundle(root / f"bundle{seed}", seed)
        run = TrackedRun(config, root / f"run{seed}", f"run{seed}")
        assert register_bundle(config, RegistryConfig(name="m"), run, bundle) == str(seed)
        run.finish("FINISHED")
    Registry(config, RegistryConfig(name="m")).set_champion("1")
    return config


@pytest.fixture(scope="session")
def generators() -> None:
    """Schemathesis and Hypothesis make tables at their first use: here, for an application of one route."""
    import hypothesis
    import schemathesis
    from fastapi import FastAPI

    def echo(body: dict[str, str]) -> dict[str, str]:
        return body

    app = FastAPI()
    app.post("/")(echo)
    for operation in schemathesis.openapi.from_asgi("/openapi.json", app).get_all_operations():
        for mode in schemathesis.GenerationMode:

            @hypothesis.settings(max_examples=2, database=None, deadline=None)
            @hypothesis.given(case=operation.ok().as_strategy(generation_mode=mode))
            def ask(case: schemathesis.Case) -> None:
                case.call()

            ask()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=180_000)
        yield browser
        browser.close()
