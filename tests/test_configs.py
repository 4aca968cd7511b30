"""Every shipped configuration composes, types, and builds what it names; mistakes are refused by name."""

import shutil
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch

from deploy import defaults
from dragoman.conf import compose, groups
from dragoman.model.networks.architectures import ARCHITECTURES, architecture, build_network, model_config
from dragoman.model.ranges import ranges_of
from dragoman.pipelines.config import Config
from dragoman.services.jobs.settings import UpRoot
from dragoman.services.models.home import SHARED

DEFAULTS = {group: choice for group, choice in groups.default_choices().items() if group != "experiment"}
OTHERS = [
    [f"{group}={choice}" for choice in groups.choices(group) if choice != DEFAULTS[group]] for group in sorted(DEFAULTS)
]
ROUNDS = [[], *([word for word in words if word] for words in zip_longest(*OTHERS))]  # a choice of each group at once


@pytest.mark.parametrize("words", ROUNDS, ids=" ".join)
def test_every_choice_composes_and_types(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = compose.typed(Config, compose.values(words, Config))
    model = model_config(config.model)
    if architecture(model.architecture).kind == "vectors":
        assert model.name == config.model["name"]
        return
    with torch.device("meta"):
        network = build_network(model, 100, 100)
    assert network.parameter_count() > 0


@pytest.mark.parametrize("root", defaults.ROOTS, ids=compose.file_of)
def test_every_root_composes_and_types(root: type[Any]) -> None:
    assert compose.typed(root, compose.values([], root)) is not None


def test_the_commented_files_say_what_the_dataclasses_say() -> None:
    """Whoever changes a default changes the dataclass, and lets `make defaults` write the file."""
    assert defaults.stale() == {}
    for file, section, schema in defaults.schemas():
        values = groups.content(file)
        assert (values[section] if section else values).keys() == defaults.defaults(schema()).keys(), (
            f"{file} {section}"
        )
    shown = {section for _, section, _ in defaults.schemas()} | DEFAULTS.keys()
    plain = {"", "pair", "seed", "models", "name", "paths", *SHARED}
    assert shown | plain == {section for root in groups.roots() for section in groups.sections(root)} | plain


def test_make_defaults_writes_changed_values_in_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = groups.text("recipe")
    stale = recipe.replace("  max_minutes: 0.0 #", "  max_minutes: 7 #").replace("    lr: 0.", "    lr: 1.")
    assert stale.count("\n") == recipe.count("\n") and "    lr: 1." in stale and "max_minutes: 7 #" in stale
    monkeypatch.setattr(groups, "FOLDER", shutil.copytree(groups.FOLDER, tmp_path / "conf"))
    (tmp_path / "conf" / "recipe.yaml").write_text(stale, encoding="utf-8")
    assert defaults.main(["--check"]) == 1 and groups.text("recipe") == stale
    assert defaults.main([]) == 0 and groups.text("recipe") == recipe


def test_the_same_configuration_has_the_same_fingerprint() -> None:
    assert compose.fingerprint({"a": 1, "b": [2]}) == compose.fingerprint({"b": [2], "a": 1})
    assert compose.fingerprint({"a": 1}) != compose.fingerprint({"a": 2})


def test_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(_: Config) -> int:
        raise RuntimeError("broken")

    def full(_: Config) -> int:
        raise OSError(28, "No space left on device", "somewhere/file")

    assert compose.run(lambda _: None, Config, [], "x") == 0
    assert compose.run(lambda _: 1, Config, [], "x") == 1
    assert compose.run(lambda _: None, Config, ["train.max_stps=1"], "x") == 2
    assert compose.run(fails, Config, [], "x") == 1
    assert compose.run(full, Config, [], "x") == 69
    printed = capsys.readouterr().err
    assert "the disk is full at somewhere/file" in printed
    assert "RuntimeError: broken" in printed


def test_cfg_job_prints_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert compose.run(lambda _: 1, Config, ["--cfg", "job", "train.max_steps=7"], "x") == 0
    shown = capsys.readouterr().out
    assert "max_steps: 7" in shown and "\npaths:" in shown
    assert "\nserve:" not in shown and "\nsweep:" not in shown, "sections that the command does not read"
    assert compose.run(lambda _: 1, Config, ["--cfg", "job"], "x", shown=["seed"]) == 0
    assert capsys.readouterr().out == "seed: 1\n"


NO_RANGE = {"cluster.workers": "a number or a range of them, checked by ClusterConfig"}


def numbers(schema: type, where: str) -> Iterator[tuple[str, bool]]:
    """The dotted key of every number that a section holds, and whether its type has a range."""
    ranged = dict(ranges_of(schema))
    for name, hint in get_type_hints(schema).items():
        inside = [hint, *get_args(hint)]
        if is_dataclass(hint) and isinstance(hint, type):
            yield from numbers(hint, f"{where}{name}.")
        elif int in inside or float in inside:
            yield f"{where}{name}", name in ranged


def test_every_number_has_a_range() -> None:
    sections = [numbers(root, "") for root in defaults.ROOTS]
    sections += [numbers(architecture(name).config, "model.") for name in ARCHITECTURES]
    found = dict(pair for section in sections for pair in section)
    assert len(found) > 150
    assert {key for key, ranged in found.items() if not ranged} == NO_RANGE.keys()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.optimizer.lr=-1", "train.optimizer.lr=-1.0: must be above 0"),
        ("train.optimizer.lr=nan", "train.optimizer.lr=nan: must be a finite number, above 0"),
        ("train.optimizer.betas=[2,3]", "train.optimizer.betas[0]=2.0: must be at least 0 and below 1"),
        ("decode.length_penalty=nan", "decode.length_penalty=nan: must be a finite number"),
        ("decode.length_penalty=none", "decode.length_penalty: 'none' fits none of a number or 'auto'"),
        ("+service.fair_share.weights.anna=0", "service.fair_share.weights.anna=0.0: must be above 0"),
        ("seed=-1", "seed=-1: must be at least 0"),
        ("pair=xx-yy", "pair=xx-yy: 'xx' is the code of no language"),
        ("pair=english-german", "pair=english-german: takes codes, not names; pair=en-de"),
    ],
)
def test_numbers_out_of_range_are_refused(override: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    def started(config: Config) -> int:
        assert config.languages
        model_config(config.model)
        return 1

    root: type[Any] = UpRoot if "service" in override else Config
    assert compose.run(started, root, [override], "x") == 2
    assert message in capsys.readouterr().err
