"""GPUs that idle, as a stand-in for NVIDIA's library shows them: a notice for each spell, a metric, a mark."""

import importlib.util
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dragoman.conf import showing
from dragoman.model.usage import gpus as nvml
from dragoman.model.usage.recorder import Order, Recorder
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.notifier import Notifier
from dragoman.services.jobs.service.usage import idle_spell
from dragoman.services.jobs.settings import IdleConfig, NotifyConfig
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import client
from tests.services.jobs.test_notifier import Clock, Received, clock, config, looked, received, started  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
STAND_IN = Path(__file__).resolve().parents[2] / "stand_ins" / "pynvml.py"
Use = Callable[..., None]


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Sets the use of the machine's GPUs, in percent."""
    spec = importlib.util.spec_from_file_location("pynvml", STAND_IN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(nvml, "pynvml", module)
    monkeypatch.setenv("STAND_IN_GPUS", str(tmp_path / "gpus.json"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def set_use(*percent: float | None) -> None:
        (tmp_path / "gpus.json").write_text(json.dumps([{"use": one, "memory": 1e9} for one in percent]))

    set_use(0, 0)
    return set_use


def holder(ledger: Ledger, *notify: str) -> Job:
    """A running job that holds two GPUs."""
    job = ledger.submit("anna", "train", [], notify=notify)
    job = ledger.change(job, State.PLANNED, "planner", "", run="run demo", plan={}, gpus=2.0)
    job = ledger.change(job, State.WAITING, "planner", "")
    with ledger.database.write() as session:
        job = ledger.begin(session, job, 1, "scheduler", "fits")
    return ledger.mark_started(job)


def recorder(home: Path, job: Job, machine: str = "here", share: float = 0.05) -> Recorder:
    attempt = attempt_of(home, job.id, job.attempt)
    attempt.folder.mkdir(parents=True, exist_ok=True)
    return Recorder(Order(str(attempt.usage), bool(job.gpus), share), Path(f"{attempt.usage}-{machine}"))


def sample(samples: Recorder, time: Clock, seconds: int) -> None:
    """Samples every 5 s for so long."""
    for _ in range(0, seconds, 5):
        time.at += 5
        samples.file.add(samples.sample(time.at))


def test_a_spell_is_told_once_whoever_looks_and_the_next_one_again(
    ledger: Ledger,
    clock: Clock,  # noqa: F811  # a fixture
    received: Received,  # noqa: F811
    config: NotifyConfig,  # noqa: F811
    tmp_path: Path,
    use: Use,
) -> None:
    idle = lambda job: idle_spell(tmp_path, job, ledger.now(), IdleConfig(minutes=10))  # noqa: E731
    make = partial(Notifier, ledger, config, "http://pages", idle)
    job = holder(ledger, f"http://127.0.0.1:{received.http}/hook")
    samples, notifier = recorder(tmp_path, job), make()
    sample(samples, clock, 300)
    use(80, 30)
    sample(samples, clock, 900)
    assert looked(notifier, clock, 20) == 0  # they were idle for less than 10 minutes
    use(80, 4)
    sample(samples, clock, 550)
    assert looked(notifier, clock, 20) == 0
    sample(samples, clock, 30)
    assert looked(notifier, clock, 20) == 1
    sample(samples, clock, 1800)  # the file is thinned meanwhile
    assert [looked(notifier, clock, 20), looked(make(), clock, 20)] == [0, 0]
    use(80, 5)
    sample(samples, clock, 5)
    use(0, 0)
    sample(samples, clock, 605)
    assert looked(make(), clock, 20) == 1
    texts = [json.loads(body)["data"]["text"] for _, _, body in received.posts]
    assert f"anna's train demo ({job.id}) leaves 1 GPU idle, for 10 min" in texts[0]
    assert "leaves 2 GPUs idle" in texts[1]
    assert [json.loads(body)["type"] for _, _, body in received.posts] == ["job.idle"] * 2
    sample(samples, clock, 5)
    clock.at += 120
    assert idle(ledger.job(job.id)) is None  # it is silent: nothing is known
    ledger.end(ledger.job(job.id), State.SUCCEEDED, "succeeded", "end", "succeeded", 0)
    assert looked(make(), clock, 20) == 1  # its end
    assert len(received.posts) == 3


def test_jobs_without_gpus_and_gpus_that_do_not_tell_are_not_idle(
    ledger: Ledger,
    clock: Clock,  # noqa: F811
    tmp_path: Path,
    use: Use,
) -> None:
    limits = IdleConfig(minutes=1)
    use(None, None)
    job = holder(ledger)
    samples = recorder(tmp_path, job)
    sample(samples, clock, 300)
    assert idle_spell(tmp_path, job, clock.at, limits) is None
    use(0, 0)
    none = started(ledger)
    samples = recorder(tmp_path, none)
    sample(samples, clock, 300)
    assert idle_spell(tmp_path, none, clock.at, limits) is None
    never = holder(ledger)
    samples = recorder(tmp_path, never, share=0.0)
    sample(samples, clock, 300)
    assert idle_spell(tmp_path, never, clock.at, limits) is None


def test_page_metric_rest_and_command_line_say_that_gpus_idle(
    loop: Loop, ask: Callable[..., int], capsys: pytest.CaptureFixture[str], use: Use
) -> None:
    loop.ledger.now = time = Clock()  # type: ignore[assignment]
    job, http = holder(loop.ledger), client(loop)
    first, second = recorder(loop.home, job, "one"), recorder(loop.home, job, "two")
    use(0, 90)
    sample(first, time, 600)
    use(90, 0)
    sample(second, time, 10)
    quiet = http.get("/metrics").text
    assert 'dragoman_idle_gpus{owner="anna"} 0.0' in quiet
    assert "are idle, since" not in http.get(f"/jobs/{job.id}").text
    use(0, 90)
    sample(first, time, 300)
    use(90, 0)
    sample(second, time, 10)
    assert 'dragoman_idle_gpus{owner="anna"} 2.0' in http.get("/metrics").text
    assert "2 GPUs of this job are idle, since" in http.get(f"/jobs/{job.id}").text
    with showing.as_json():
        assert ask("job", job.id) == 0
    machines = json.loads(capsys.readouterr().out)["usage"]["machines"]
    assert [(one["machine"], one["idle"]) for one in machines] == [("one", 1), ("two", 1)]
    assert ask("job", job.id) == 0
    assert "idle on two" in capsys.readouterr().out
