"""The planner's process and what it has planned before."""

import dataclasses
import errno
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.conf import compose, groups
from dragoman.model.errors import ServiceError, UserError
from dragoman.model.networks.architectures import ARCHITECTURES, architecture, build_network, model_config
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks import lora
from dragoman.pipelines.tasks.parts import freeze
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.database import Measurement
from dragoman.services.jobs.planning import work, worker
from dragoman.services.jobs.planning.planner import Planner, stamp_of
from dragoman.services.jobs.service import intake
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.operations import Operations
from dragoman.services.jobs.service.plans import expected_seconds
from dragoman.services.jobs.states import State
from dragoman.services.subprocesses.worker import answer_or_refuse
from tests.services.jobs.processes import REPOSITORY, words

STUB = """
from dragoman.services.subprocesses.worker import serve

def answer(asked, _):
    while asked["words"][0] == "slow":
        pass
    return {"plan": {"words": asked["words"]}, "reads": {}}

serve(answer, "it", COMPUTING)
"""
SHIPPED = {groups.merge_choice("model", name)["architecture"]: name for name in groups.choices("model")}


def test_the_same_words_are_planned_once_as_long_as_the_files_behind_them_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, asked = tmp_path / "manifest.json", list[str]()

    def ask(_: Planner, question: dict[str, Any]) -> dict[str, Any]:
        words = question["words"]
        asked.append(words[0])
        reads = {} if words == ["doctor"] else {str(manifest): stamp_of(str(manifest))}
        return {"plan": {"words": words, "number": len(asked)}, "reads": reads}

    monkeypatch.setattr(Planner, "_ask", ask)
    planner = Planner([tmp_path])
    first = planner.plan("train", ["a"])
    first["words"] = "changed by whoever was given it"
    assert planner.plan("train", ["a"]) == {"words": ["a"], "number": 1}
    assert planner.plan("train", ["a"], gpus=1)["number"] == 2
    manifest.write_text("{}")
    assert planner.plan("train", ["a"])["number"] == 3
    assert planner.plan("train", ["a"])["number"] == 3
    assert [planner.plan("doctor", ["doctor"])["number"] for _ in range(2)] == [4, 5]  # what it reads nobody knows


def test_a_plan_beyond_its_limit_is_refused_and_others_are_made_meanwhile(tmp_path: Path) -> None:
    planner = Planner([tmp_path])
    planner.pool.command = [sys.executable, "-c", STUB.replace("COMPUTING", "1e6")]
    planner.prepare()
    ended: list[str] = []

    def slow() -> None:
        try:
            planner.plan("train", ["slow"])
        except (UserError, ServiceError) as problem:
            ended.append(str(problem))

    threads = [threading.Thread(target=slow) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(5):
        assert planner.plan("train", [f"quick{number}"])["words"] == [f"quick{number}"]
    assert all(thread.is_alive() for thread in threads)
    planner.close()  # ends what they are at
    for thread in threads:
        thread.join(60)
    assert ended == ["the process has ended: it was killed, or has crashed"] * 2
    again = Planner([tmp_path])
    again.pool.command = [sys.executable, "-c", STUB.replace("COMPUTING", "0.2")]
    with pytest.raises(UserError, match="s of a processor: its settings are too large"):
        again.plan("train", ["slow"])
    assert again.plan("train", ["after"])["words"] == ["after"]
    again.close()


def test_a_job_whose_planner_has_gone_waits_for_its_plan(loop: Loop, tmp_path: Path) -> None:
    planner = loop.intake.plans.planner = Planner([tmp_path])
    planner.pool.command = [sys.executable, "-c", "pass"]
    job = loop.ledger.submit("anna", "train", ["second"])
    operations = Operations(loop.ledger, loop, loop.config)
    loop.intake.take(None)
    assert loop.ledger.job(job.id).state == State.SUBMITTED
    said = operations.why(Person("anna", "submitter"), job.id).text
    assert said == "it waits for its plan: the process has ended: it was killed, or has crashed"
    planner.close()


@pytest.mark.parametrize(
    ("problem", "again"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (ServiceError("MLflow does not answer"), True),
        (ValueError("a fault of the program"), False),
    ],
)
def test_only_what_a_machine_may_get_over_is_tried_again(
    problem: Exception, again: bool, loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(worker, "make_plan", fail)
    loop.intake.plans.planner = Planner([tmp_path])
    pool = loop.intake.planner.pool
    monkeypatch.setattr(pool, "ask", lambda asked: answer_or_refuse(worker.answer, asked, worker.WHAT))
    job = loop.ledger.submit("anna", "train", ["corpus=everyday", "name=a"])
    loop.intake.take(None)
    assert loop.ledger.job(job.id).state == (State.SUBMITTED if again else State.FAILED)
    assert (str(problem) in loop.intake.waits.get(job.id, "")) == again
    assert loop.intake.take(None) == 0  # not at once


def test_a_plan_that_takes_long_holds_up_nobody_elses(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "BESIDE", 0.2)  # the intake goes on; the fixture of this folder makes it wait
    real, done = loop.intake.planner.plan, threading.Event()

    def plan(verb: str, given: Sequence[str], *more: Any) -> dict[str, Any]:
        if "slow" in given[0]:
            done.wait(300)
        return real(verb, given, *more)

    loop.intake.planner.plan = plan  # type: ignore[method-assign]
    slow = [loop.ledger.submit("anna", "train", words(tmp_path, f"slow{n}", 1)) for n in range(20)]
    quick = loop.ledger.submit("bert", "train", words(tmp_path, "quick", 1))
    while loop.ledger.job(quick.id).state != State.WAITING:
        loop._take()
    assert {loop.ledger.job(one.id).state for one in slow} == {State.SUBMITTED}
    done.set()
    while any(loop.ledger.job(one.id).state == State.SUBMITTED for one in slow):
        loop._take()
    assert {loop.ledger.job(one.id).state for one in slow} == {State.WAITING}


def test_a_plan_that_needs_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(worker, "make_plan", fail)
    asked = {"verb": "train", "words": [], "owner": "", "roots": [], "secrets": [], "gpus": 0.0, "early": True}
    found = answer_or_refuse(worker.answer, asked, worker.WHAT)
    assert "more than 2 GiB of memory" in found["refused"] and found["spent"]
    code = "import dragoman.services.subprocesses.worker as w; w.limit_memory(2 << 30); bytearray(3 << 30)"
    said = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert said.stderr.strip().endswith("MemoryError")


@pytest.mark.parametrize("name", sorted(name for name in ARCHITECTURES if architecture(name).kind != "vectors"))
def test_the_computed_size_of_a_network_is_that_of_the_built_one(name: str) -> None:
    config = model_config(groups.merge_choice("model", SHIPPED[name]))
    stacks = [key for key in work.STACKS if hasattr(config, key)]
    assert stacks
    for number, key in enumerate(stacks):
        config = dataclasses.replace(config, **{key: 5 + number})
    with torch.device("meta"):
        built = build_network(config, 100, 100).parameter_count()
    assert work.count_parameters(config, 100, 100) == (built, built)
    assert work.count_parameters(dataclasses.replace(config, **dict.fromkeys(stacks, 20_000)), 100, 100)[0] > built


@pytest.mark.parametrize(
    "words",
    [
        ["model=transformer_tiny", "train.freeze=[embeddings,encoder]"],
        ["model=transformer_tiny", "train.init_from=x", "train.lora.rank=4"],
        ["model=transformer_tiny", "train.init_from=x", "train.lora.rank=2", "train.lora.parts=[decoder]",
         "train.lora.targets=[attention]", "train.lora.whole=[embeddings]"],
        ["model=classifier_transformer", "train.init_from=x", "train.lora.rank=4", "model.layers=6"],
        ["model=rnnsearch_dot", "train.freeze=[encoder]"],
    ],
)  # fmt: skip
def test_memory_has_gradients_and_moments_of_what_is_trained_alone(words: list[str], tmp_path: Path) -> None:
    values = compose.values([*words, f"paths.shards={tmp_path}", "tokenizer.vocabulary=100"])
    config = compose.typed(Config, values)
    network = build_network(model_config(config.model), 100, 100)
    whole = network.parameter_count()
    freeze(config, network)
    lora.adapt(config, network)
    found = work.training(values, 2)
    assert found is not None and found.parameters == whole
    full = work.training({**values, "train": {**values["train"], **work.ALL}}, 2)
    assert full is not None and full.memory - found.memory == 12 * (whole - network.parameter_count()) > 0


def test_sizes_that_no_tensor_has_are_refused() -> None:
    config = model_config(groups.merge_choice("model", "transformer_tiny"))
    with pytest.raises(UserError, match="model: no network can have these sizes"):
        work.count_parameters(dataclasses.replace(config, width=2**31), 100, 100)


def test_a_training_is_expected_to_keep_its_time_limit() -> None:
    plan = {"verb": "train", "shape": "x", "steps": 1000, "flops": 1000.0, "limit": 180.0}
    measured = [Measurement(verb="train", shape="x", steps=100, training=100.0, flops=1.0, workers=1, around=9.0)]
    assert expected_seconds(plan, 1, []) == expected_seconds(plan, 1, measured) == 180.0
    assert expected_seconds({**plan, "limit": None}, 1, measured) == 1009.0
