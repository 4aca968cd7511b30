"""A training and its promotion translate no set twice by one engine; a promotion takes nothing that is stale."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.model.bundles.translation import load_bundle
from dragoman.model.decoding.search import decode
from dragoman.model.inference.engines import CTranslate2Engine, TorchEngine
from dragoman.model.inference.translator import open_translator
from dragoman.pipelines import train
from dragoman.pipelines.evaluation import tuning
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.tasks.translation_release import TRANSLATIONS, judge, keep_translations, stored_translations
from dragoman.pipelines.tracking.registry import Version
from dragoman.pipelines.tracking.settings import PromoteConfig
from tests.pipelines.tasks.test_translation_pictures import make
from tests.pipelines.tasks.test_warm_start import SMALL, config

RECURRENT = ["model=rnnsearch_dot", "model.embedding=8", "model.width=16", "model.encoder_width=8"]
MODELS = {"transformer": SMALL, "recurrent": RECURRENT}
SEARCH = ["decode.beam=2", "decode.length_penalty=auto", "decode.max_extra=4", "decode.max_ratio=1.0"]


class Shelf:
    """A registry whose versions are runs."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs

    def bundle(self, version: Version, folder: Path) -> Path:
        return self.runs / version.number / "bundle"


class Counted:
    """Counts the searches of a whole set by engine."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sets: Counter[tuple[str, bytes]] = Counter()
        for engine in (TorchEngine, CTranslate2Engine):
            patch.setattr(engine, "search", self.counting(engine.search))
        patch.setattr(tuning, "decode", self.tuned)

    def add(self, engine: str, sources: Sequence[np.ndarray]) -> None:
        if len(sources) > 1:  # one sentence warms up
            self.sets[engine, b"".join(ids.tobytes() for ids in sources)] += 1

    def counting(self, search: Any) -> Any:
        def counted(engine: Any, sources: Sequence[np.ndarray], *rest: Any) -> Any:
            self.add(engine.name, sources)
            return search(engine, sources, *rest)

        return counted

    def tuned(self, network: Any, sources: Sequence[np.ndarray], *rest: Any, **more: Any) -> Any:
        self.add(TorchEngine.name, sources)
        return decode(network, sources, *rest, **more)


@pytest.mark.parametrize("model", MODELS)
def test_each_set_is_translated_once_by_each_engine(model: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(home, f"name={model}", *SEARCH, sizes=MODELS[model])
    counted = Counted(monkeypatch)
    assert train.task(settings) == 0
    released = dict(counted.sets)
    shelf: Any = Shelf(settings.run_dir.parent)
    judge(replace(settings, promote=PromoteConfig(trials=20)), shelf, Version(model, ""), None)
    assert released == counted.sets, "the promotion translated again"
    assert set(counted.sets.values()) == {1}

    bundle = load_bundle(settings.run_dir / "bundle")
    sources, _ = held_out(settings.shard_dir, "valid", bundle.languages)
    translator = open_translator(bundle)
    said = [answer.text for answer in translator.translate(sources)]
    assert stored_translations(bundle, sources, translator.engine.name) == said
    assert '"valid/bleu"' in "".join(path.read_text() for path in settings.run_dir.rglob("*.jsonl"))


def test_translations_are_taken_of_the_same_weights_sources_search_and_engine(tmp_path: Path) -> None:
    bundle, other = make(tmp_path / "one", True), make(tmp_path / "other", False)
    for each in (bundle, other):
        assert stored_translations(each, ["a", "b"], "torch") is None
    keep_translations(bundle, ["a", "b"], "torch", ["x", "y"])
    assert stored_translations(load_bundle(bundle.directory), ["a", "b"], "torch") == ["x", "y"]
    assert stored_translations(bundle, ["a", "c"], "torch") is None
    assert stored_translations(bundle, ["a"], "torch") is None
    assert stored_translations(bundle, ["a", "b"], "ctranslate2 (ct2)") is None
    wider = replace(bundle, decode=replace(bundle.decode, beam=3))
    assert stored_translations(wider, ["a", "b"], "torch") is None
    other.add_file(bundle.directory / TRANSLATIONS)
    assert stored_translations(other, ["a", "b"], "torch") is None


@pytest.mark.parametrize("change", [b"", b"[]", '"translations": ["x"]', '"translations": ["x", 1]'])
def test_malformed_translations_are_made_again(change: bytes | str, tmp_path: Path) -> None:
    bundle = make(tmp_path / "one", True)
    keep_translations(bundle, ["a", "b"], "torch", ["x", "y"])
    file = bundle.directory / TRANSLATIONS
    whole = file.read_text(encoding="utf-8")
    new = whole.replace('"translations": ["x", "y"]', change) if isinstance(change, str) else change.decode()
    assert new != whole
    file.write_text(new, encoding="utf-8")
    assert stored_translations(bundle, ["a", "b"], "torch") is None
