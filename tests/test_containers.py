"""docker-compose.yml as containers: built images, the composition as it stands, a model from shards to answers, an
update while a training runs, restarts, and the restore guide of docs/deploy.md as it is printed.

Minutes, and only where podman runs containers and the images are there (make images): `make test-long`.
"""

import re
import subprocess
import time
from collections.abc import Iterator

import httpx
import pytest

from dragoman.services.jobs.client.client import JobClient
from tests.containers.engine import COMPOSITION, LIKE_DOCKER, REPOSITORY, Containers, code_in_image, podman, project

pytestmark = pytest.mark.long
SMALL = [
    *("experiment=demo", "corpus.pairs=1000", "tokenizer.vocabulary=300", "registry.name=everyday-en-de"),
    *("model.width=32", "model.heads=2", "model.feed_forward=32", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("train.checkpoint_every=10", "train.evaluate_every=40", "evaluate.sentences=20", "cluster.workers=2"),
]
DOCKER = """docker() {
    if [ "$1" = compose ]; then shift; "$COMPOSE" "$LIKE_DOCKER" --project-name "$PROJECT" "$@"; else podman "$@"; fi
}"""
ENDED = ("succeeded", "failed", "stopped", "refused")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    with project(tmp_path_factory.mktemp("composition")) as one:
        here, there = code_in_image()
        assert here == there, "the image dragoman-train has other code than this folder: make images"
        for service in one.services():
            one.up(service)
        yield one


def client(one: Containers) -> JobClient:
    return JobClient(one.url("JOBS"), one.secret("jobs_admin_token"), timeout=120)


def finish(one: Containers, job: str, patience: float = 900.0) -> str:
    """The state that a job ends in."""
    deadline = time.monotonic() + patience
    with client(one) as service:
        while (state := service.job(job)["state"]) not in ENDED:
            assert time.monotonic() < deadline, b"".join(service.log(job))[-4000:]
            time.sleep(1)
        assert state == "succeeded", b"".join(service.log(job))[-4000:].decode()
    return state


def submit(one: Containers, verb: str, *words: str) -> str:
    with client(one) as service:
        return service.submit(verb, [*SMALL, *words])["id"]


def translate(one: Containers) -> httpx.Response:
    asked = {"q": "the dog sees the man .", "source": "en", "target": "de"}
    return httpx.post(f"{one.url('ENDPOINT')}/translate", json=asked, timeout=120)


def test_all_containers_are_healthy_and_none_is_root_or_writes_where_it_may_not(running: Containers) -> None:
    for service in running.services():
        settings = COMPOSITION["services"][service]
        if settings.get("healthcheck", {}).get("disable"):
            continue
        for name in running.containers(service):
            inside = podman(
                "exec", name, "sh", "-c", "id -u; grep CapEff /proc/self/status; touch /not-here", check=False
            )
            user, capabilities = inside.stdout.split("\n")[:2]
            assert int(user) != 0 and int(capabilities.split()[1], 16) == 0, name
            assert inside.returncode != 0, f"{name} writes to /"
            assert (
                podman("inspect", "--format", "{{.HostConfig.ReadonlyRootfs}}", name).stdout.strip()
                == str(settings.get("read_only", False)).lower()
            ), name
    answer = httpx.get(f"{running.url('ENDPOINT')}/health", timeout=60)
    assert (answer.status_code, answer.json()["status"]) == (503, "loading")  # and healthy


def test_rays_containers_share_the_cpus_of_the_machine(running: Containers) -> None:
    nodes = 'import ray; ray.init("auto", log_to_driver=False); print([n["Resources"].get("CPU") for n in ray.nodes()])'
    said = podman("exec", running.containers("ray-head")[0], "python", "-c", nodes).stdout
    found = sorted(map(float, re.findall(r"[\d.]+", said.strip().splitlines()[-1])))
    cores = int(podman("exec", running.containers("ray-head")[0], "nproc").stdout)
    assert len(found) == 1 + running.workers
    assert sum(found) == 1 + running.workers * max(1, cores // running.workers)


def test_a_model_is_sharded_trained_on_two_containers_promoted_and_answers(running: Containers) -> None:
    finish(running, submit(running, "shard"))
    training = submit(running, "train", "name=first", "train.max_steps=40")
    finish(running, training)
    finish(running, submit(running, "promote", "promote.force=true", "promote.reason=it is new"))
    running.until(lambda: translate(running).status_code == 200, "endpoint")
    assert translate(running).headers["X-Model-Version"] == "1"
    with client(running) as service:
        said = b"".join(service.log(training)).decode()
    assert "2 workers" in said, said[-3000:]


def test_prometheus_reads_both_services(running: Containers) -> None:
    def targets() -> dict[str, str]:
        found = httpx.get(f"{running.url('PROMETHEUS')}/api/v1/targets", timeout=60).json()["data"]["activeTargets"]
        return {one["labels"]["job"]: one["health"] for one in found}

    running.until(lambda: targets() == {"dragoman-jobs": "up", "dragoman-endpoint": "up"}, "prometheus")


def test_an_update_waits_for_the_checkpoint_of_what_runs_and_goes_on(running: Containers) -> None:
    """As docs/deploy.md says: the job service is stopped first, then everything is started anew."""
    training = submit(running, "train", "name=second", "train.max_steps=2000")
    with client(running) as service:
        running.until(lambda: service.job(training)["state"] == "running", "jobs")
        running.until(lambda: b"step" in b"".join(service.log(training)), "jobs")
    began = time.monotonic()
    running.compose("stop", "jobs")
    assert time.monotonic() - began < 150
    running.up("jobs", "--force-recreate")
    with client(running) as service:
        attempts = service.job(training)["attempts"]
        assert attempts[0]["outcome"] == "yielded", attempts
        running.until(lambda: service.job(training)["attempt"] == 2, "jobs")
        service.act(training, "stop")
    with client(running) as service:
        running.until(lambda: service.job(training)["state"] == "stopped", "jobs")


def test_every_container_may_be_restarted(running: Containers) -> None:
    for service in running.services():
        if COMPOSITION["services"][service].get("healthcheck", {}).get("disable"):
            continue
        for name in running.containers(service):
            podman("restart", "--time", "60", name)
        running.wait(service)
    running.until(lambda: translate(running).status_code == 200, "endpoint")
    with client(running) as service:
        assert {one["run"] for one in service.jobs()["jobs"]} >= {"run first", "run second"}
        running.until(lambda: service.status()["status"] == "ok", "jobs")
    finish(running, submit(running, "train", "name=third", "train.max_steps=10"))


def guide(name: str) -> str:
    """The commands of docs/deploy.md under a heading."""
    page = (REPOSITORY / "docs" / "deploy.md").read_text(encoding="utf-8")
    found = re.search(rf"^### {name}\n.*?```sh\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    assert found, name
    return found[1]


def follow(one: Containers, commands: str) -> None:
    """Run commands for docker as they are printed, by podman, which does not wait for health by itself."""
    environment = {**one.environment, "COMPOSE": one.program, "PROJECT": one.project, "LIKE_DOCKER": LIKE_DOCKER}
    for line in commands.replace("dragoman_", f"{one.project}_").splitlines():
        if re.fullmatch(r"docker compose up --detach\s*", line):  # podman-compose waits for what it has not started
            for service in one.services():
                one.up(service)
            continue
        done = subprocess.run(
            ["sh", "-c", f"set -e\n{DOCKER}\n{line}"],
            cwd=one.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        if waits := re.search(r"--wait (\w+)", line):
            one.wait(waits[1])


def test_the_guide_brings_everything_back_on_an_empty_machine(running: Containers) -> None:
    with client(running) as service:
        before = [(one["id"], one["state"]) for one in service.jobs()["jobs"]]
    follow(running, guide("Backup"))
    assert {path.name for path in (running.folder / "backup").iterdir()} >= {
        "mlflow.dump",
        "ledger.dump",
        "objects.tar",
    }
    running.down()
    began = time.monotonic()
    follow(running, guide("Restore"))
    for service in running.services():
        running.wait(service)
    running.until(lambda: translate(running).status_code == 200, "endpoint")
    print(f"restored in {time.monotonic() - began:.0f} s")
    with client(running) as service:
        assert [(one["id"], one["state"]) for one in service.jobs()["jobs"]] == before
