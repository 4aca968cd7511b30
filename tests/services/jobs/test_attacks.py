"""What a submitter may try to read, overwrite or contact: each value is refused by the planner that the service uses.

The scene is a home with the service's secrets, two owners' runs and shards, and a folder that the service runs in. A
refusal must never say whether a secret exists.
"""

import os
import re
import types
import warnings
from collections.abc import Iterator
from dataclasses import is_dataclass, make_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import ARCHITECTURES, architecture
from dragoman.pipelines.config import Config, SynthesizeRoot
from dragoman.pipelines.places import KINDS
from dragoman.pipelines.unpack import UnpackRoot
from dragoman.services.from_home import is_open
from dragoman.services.jobs.http.parts import ServiceParts
from dragoman.services.jobs.planning.plan import make_plan
from dragoman.services.jobs.up.app import create_app
from tests.services.jobs.planner_here import PlannerHere
from tests.services.jobs.processes import make_loop

SECRET = "dgm_the_secret_itself"
LISTED = "corpus=text pair=en tokenizer=characters"
# (verb, overrides); {home}, {data} (of service.roots), {cwd} and {up} (HOME as seen from the cwd) are filled in.
MIX = "corpus=tsv pair=en-de"
READING = [
    ("shard", f"{MIX} 'corpus.parts=[{{{{name: a, train: {{{{file: \"{{home}}/service/session_key\"}}}}}}}}]'"),
    (
        "shard",
        f"{MIX} 'corpus.parts=[{{{{name: b, root: \"{{home}}/service\", train: {{{{file: ray_token}}}}}}}}]'",
    ),
    ("shard", f"{LISTED} corpus.train.file={{home}}/service/session_key"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/*/session_key"),
    ("shard", f"{LISTED} 'corpus.train.file=\"{{home}}/s[e]rvice/session_ke?\"'"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/jobs/other/a1.log"),
    ("shard", f"{LISTED} corpus.train.file={{home}}//service///session_key"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/corpora/missing/../../service/session_key"),
    ("shard", f"{LISTED} corpus.train.file=/proc/self/root{{home}}/service/session_key"),
    ("shard", f"{LISTED} corpus.train.file=/proc/self/cwd/tok.admin"),
    ("shard", f"{LISTED} corpus.train.file=/dev/stdin"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/corpora/link-to-key"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/corpora/*-to-key"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/corpora/hard-link"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/corpora/hard-*"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/corpora/hard-endpoint"),
    ("shard", f"{LISTED} corpus.train.file={{data}}/jobs_token"),
    ("shard", f"{LISTED} corpus.train.file={{data}}/*"),
    ("shard", f"{LISTED} corpus.train.file=tok.admin"),
    ("shard", f"{LISTED} corpus.train.file=*"),
    ("shard", f"{LISTED} corpus.train.file=[[tok.admin]]"),
    ("shard", f"{LISTED} corpus.train.file=[{{home}}/corpora/books.txt,tok.admin]"),
    ("shard", f"{LISTED} corpus.train={{{{file: [[{{home}}/service/session_key]]}}}}"),
    ("shard", f"{LISTED} corpus.valid.file=tok.admin corpus.train.file={{home}}/corpora/books.txt"),
    ("shard", f"{LISTED} corpus.root={{home}} corpus.train.file=service/session_key"),
    ("shard", f"{LISTED} corpus.root=. corpus.train.file=tok.admin"),
    ("shard", f"{LISTED} corpus.root={{home}}/corpora corpus.train.file=../service/session_key"),
    (
        "shard",
        f"{LISTED} corpus.root={{home}}/corpora '+corpus.languages={{{{en: ../service/session_key}}}}' "
        "'corpus.train.file=\"{{source}}\"'",
    ),
    ("shard", f"{LISTED} 'corpus.train.file=\"~/.ssh/id_rsa\"'"),
    ("shard", f"{LISTED} corpus.train.file=file://{{home}}/service/session_key"),
    ("shard", f"{LISTED} corpus.train.file=http://127.0.0.1:8265/api/jobs"),
    ("shard", "corpus=webdataset pair=en corpus.train.file=http://localhost:8300/v1/jobs"),
    ("shard", "corpus=webdataset pair=en corpus.train.file=s3://bucket/a.tar"),
    ("shard", "corpus=moses corpus.train.source=tok.admin corpus.train.target=tok.admin"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/corpora/books.txt tokenizer.same_as={{home}}/service"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/corpora/books.txt tokenizer.same_as=secret-bundle"),
    ("unpack", "paths.shards={home}/service"),
    ("unpack", "paths.shards={up}/service"),
    ("unpack", "paths.shards={home}/shards/linked"),
    ("unpack", "paths={{root: {home}/service}}"),
    ("unpack", "~paths.shards"),
    ("evaluate", "bundle=secret-bundle"),
    ("evaluate", "bundle={home}/jobs/other"),
    ("evaluate", "evaluate.against=[[{home}/service]]"),
    ("evaluate", "bundle=models:/../../service@x"),
    ("evaluate", "paths.runs={home}/jobs name=other"),
    ("train", f"name={'a' * 256}"),
    ("train", f"name={'/ü' * 900}"),
    ("shard", f"paths.shards={{home}}/shards/{'a' * 256}"),
    ("evaluate", f"bundle={{home}}/runs/{'a' * 256}"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/corpora/{'a' * 256}"),
    ("train", "train.init_from=secret-bundle"),
    ("train", "embeddings.source=file://{home}/service"),
    ("train", "vectors.evaluate.root={home}/corpora 'vectors.evaluate.similarity=[../service/session_key]'"),
    ("train", "vectors.evaluate.root=. 'vectors.evaluate.analogies=[tok.admin]'"),
    ("compare", "models=[[{home}/service]]"),
]
WRITING = [
    ("shard", "paths.shards={home}/service/new"),
    ("shard", "paths.shards={home}"),
    ("shard", "paths.shards={home}/shards/."),
    ("shard", "paths.shards={home}/jobs/other"),
    ("shard", "paths.shards={data}/new"),
    ("shard", "paths.shards=here"),
    ("train", "paths.runs={home}/jobs name=other"),
    ("train", "paths.runs=."),
    ("train", "paths.runs={data}"),
    ("train", "paths.mlflow={home}/service"),
    ("train", "paths.cache={home}/service"),
    ("unpack", "output={home}/jobs/other"),
    ("unpack", "output={home}/corpora/link-to-service"),
    ("unpack", "output=/tmp"),
]
CONTACTING = [
    ("train", "cluster={{address: 'ray://evil:10001'}}"),
    ("train", "+cluster={{address: evil}}"),
    ("train", "cluster.address=auto"),
    ("train", "tracking={{uri: 'sqlite:////{home}/service/ledger.db'}}"),
    ("train", "tracking={{artifacts: {home}/service}}"),
    ("train", "~cluster.address"),
    ("sync", "tracking.uri=http://evil"),
    ("promote", "tracking={{uri: 'http://localhost:8310'}}"),
    ("doctor", "cluster={{address: 'http://10.0.0.1:22'}}"),
    ("doctor", "tracking={{uri: 'postgresql://10.0.0.1:5432/x'}}"),
    ("doctor", "paths.root=s3://10.0.0.1/x"),
    ("doctor", "jobs={{address: 'http://10.0.0.1'}}"),
    ("doctor", "+service@cluster=default"),
    ("shard", "corpus={cwd}/tok.admin"),
    ("shard", "corpus=../../../../../..{cwd}/evil"),
    ("shard", "corpus=[text,../service/default]"),
    ("shard", "+experiment=../service/default"),
    ("shard", "corpus/train=text"),
]
HONEST = [
    ("shard", "corpus=everyday corpus.pairs=100"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/corpora/books.txt"),
    ("shard", f"{LISTED} corpus.train.file={{home}}/corpora/*.txt"),
    ("shard", f"{LISTED} corpus.root={{home}}/corpora 'corpus.train.file=\"{{{{source}}}}*.txt\"'"),
    ("shard", f"{LISTED} corpus.root={{data}}/mine corpus.train.file=a.txt paths.shards={{home}}/shards/new"),
    ("shard", f'{LISTED} corpus.train.file={{data}}/mine/a.txt \'corpus.between=["/start: of","~","*"]\''),
    ("train", "name=new train.init_from=m@champion cluster.workers=1..2"),
    ("train", "paths.runs={home}/runs/anna name=new cluster=ray"),
    ("evaluate", "bundle=models:/m/3 evaluate.against=[other,m@champion]"),
    ("compare", "models=[rnnenc,transformer] compare.name=mine"),
    ("promote", "registry.name=mine 'promote.reason=\"/etc/passwd is only a text\"'"),
    ("unpack", "output={home}/corpora/mine"),
    ("sync", "name=one"),
]
ATTACKS = [*READING, *WRITING, *CONTACTING]


def words_of(text: str, **places: object) -> list[str]:
    """The overrides of a row, split as a shell splits them; text in '...' stays one word without the quotes around."""
    found, word, quoted, depth = [], "", False, 0
    for letter in text.format(**places):
        if letter == "'" and not depth and (not word or quoted):
            quoted = not quoted
            continue
        depth += letter in "{["
        depth -= letter in "}]"
        if letter == " " and not quoted and not depth:
            found.append(word)
            word = ""
            continue
        word += letter
    return [*found, word]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """The home, a folder of service.roots, and the folder that the service runs in, whose parent is the home's.

    One for all, for nothing that is refused changes anything: with another home every composition would be made anew.
    """
    tmp_path = tmp_path_factory.mktemp("scene")
    home, data, cwd = tmp_path / "home", tmp_path / "data", tmp_path / "cwd"
    for folder in ("service", "endpoint", "jobs/other", "corpora", "shards", "runs", "mlflow"):
        (home / folder).mkdir(parents=True)
    for name in (
        "service/session_key",
        "service/ray_token",
        "service/ledger.db",
        "endpoint/endpoint.db",
        "jobs/other/a1.log",
    ):
        (home / name).write_text(f"{SECRET}\n" * 50)
    (home / "corpora/books.txt").write_text("a line\n" * 500)
    (home / "corpora/link-to-key").symlink_to(home / "service/session_key")
    (home / "corpora/link-to-service").symlink_to("../service")
    os.link(home / "service/session_key", home / "corpora/hard-link")
    os.link(home / "endpoint/endpoint.db", home / "corpora/hard-endpoint")
    (home / "shards/linked").symlink_to(home / "service")
    (data / "mine").mkdir(parents=True)
    (data / "mine/a.txt").write_text("a line\n" * 500)
    (data / "link-to-key").symlink_to(home / "service/session_key")
    (data / "jobs_token").write_text(SECRET)
    cwd.mkdir()
    (cwd / "tok.admin").write_text(f"{SECRET}\n" * 500)
    (cwd / "secret-bundle").mkdir()
    (cwd / "secret-bundle/config.json").write_text("{}")
    for name in ("service", "jobs", "cache", "here", "out"):
        (cwd / name).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_HOME", str(home))
        patch.chdir(cwd)
        yield {"home": home, "data": data, "cwd": cwd, "up": Path("../home")}


# Every refusal is for its own reason, and names the key.
REASONS = (
    r"lies outside of what jobs may (use: /|write: a folder of its own below /|write: /)"
    r"|is not known|Choices: |has dots between"
    r"|names no server and no command"
    r"|leave it out|is too long for a path"
    r"|takes no key away"
    r"|moves no section|move no section"
    r"|fits none of text or list"
    r"|beside its overrides|the service says where"
)


@pytest.mark.parametrize(("verb", "row"), ATTACKS)
def test_an_attack_is_refused(verb: str, row: str, scene: dict[str, Path]) -> None:
    home, data, words = scene["home"], scene["data"], words_of(row, **scene)
    with pytest.raises(UserError, match=REASONS) as refused:
        make_plan(verb, words, [home, data], 0.0, secrets=[data / "jobs_token"])
    told = str(refused.value)
    keys = {part for word in words for part in re.findall(r"[a-z_]+", word)} | {"name", "uri"}
    assert re.match(r"[+~'\"]*([a-z_.]+)", told)[1].rpartition(".")[2] in keys  # type: ignore[index]  # it begins with a key
    assert SECRET not in told and "no such" not in told and "exist" not in told


def test_the_endpoints_folder_is_closed_to_jobs_whose_roots_hold_it(scene: dict[str, Path]) -> None:
    words = words_of(f"{LISTED} corpus.train.file={{home}}/endpoint/*", **scene)
    with pytest.raises(UserError, match="lies outside of what jobs may use"):
        make_plan("shard", words, [scene["home"], scene["home"]], 0.0)


def test_a_file_that_is_not_there_is_refused_in_the_same_words(scene: dict[str, Path]) -> None:
    told = []
    for name in ("session_key", "no_such_one"):
        row = f"{LISTED} corpus.train.file={{home}}/service/{name}"
        with pytest.raises(UserError) as refused:
            make_plan("shard", words_of(row, **scene), [scene["home"]], 0.0)
        told.append(str(refused.value).replace(name, ""))
    assert told[0] == told[1]


@pytest.mark.parametrize(("verb", "row"), HONEST)
def test_what_a_job_may_use_passes(verb: str, row: str, scene: dict[str, Path]) -> None:
    words = words_of(row, **scene)
    plan = make_plan(
        verb, words, [scene["home"], scene["data"]], 0.0, early=True, secrets=[scene["data"] / "jobs_token"]
    )
    assert plan["verb"] == verb


def texts_of(hint: object, where: str = "") -> Iterator[str]:
    """The dotted keys of every text below a dataclass, `*` for any key of a dictionary."""
    origin = get_origin(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        for name, inner in get_type_hints(hint).items():
            yield from texts_of(inner, f"{where}.{name}".lstrip("."))
    elif origin in (Union, types.UnionType):
        for inner in get_args(hint):
            yield from texts_of(inner, where)
    elif origin is list:
        yield from texts_of(get_args(hint)[0], where)
    elif origin is dict:
        yield from texts_of(get_args(hint)[1], f"{where}.*")
    elif hint in (str, Any):
        yield where


def test_every_text_key_has_a_kind() -> None:
    """A new key that is a text: say in pipelines/places.py what the code does with it."""
    roots = [
        Config,
        SynthesizeRoot,
        UnpackRoot,
        *(make_dataclass("Root", [("model", architecture(name).config)]) for name in ARCHITECTURES),
    ]
    keys = {key for root in roots for key in texts_of(root)}
    assert keys == set(KINDS)


def test_a_folder_has_one_claim_however_it_is_written(scene: dict[str, Path]) -> None:
    home = scene["home"]
    (home / "shards/one").mkdir()
    (home / "shards/link").symlink_to("one")
    for shards in (f"{home}/shards/x/.././one/", f"{home}//shards/link", "../home/shards/one"):
        plan = make_plan("shard", [f"paths.shards={shards}"], [home], 0.0)
        assert plan["claims"] == f"shards {home}/shards/one", shards
    train = [f"paths.runs={home}/./runs/../runs", "name=one", f"paths.shards={home}/shards/one"]
    assert make_plan("train", train, [home], 0.0, early=True)["claims"] == "run one"
    train[0] = f"paths.runs={home}/runs/of-anna/"
    assert make_plan("train", train, [home], 0.0, early=True)["claims"] == f"run {home}/runs/of-anna/one"


def test_the_service_answers_an_attack_with_400_and_starts_nothing(scene: dict[str, Path]) -> None:
    """The whole way: HTTP, the planner, the ledger. One in sixteen, and another owner's shards."""
    with warnings.catch_warnings():  # of a package that is not installed
        warnings.simplefilter("ignore")
        from fastapi.testclient import TestClient

    home, data = scene["home"], scene["data"]
    loop = make_loop(f"sqlite:///{home.parent}/ledger.db", home)
    loop.capacity = loop.executor.capacity()
    loop.intake.plans.planner = PlannerHere([home, data], [data / "jobs_token"])
    parts = ServiceParts(loop.ledger, loop.scheduler.access, loop, loop.config, home, False)
    try:
        with TestClient(create_app(parts), base_url="http://127.0.0.1") as http:
            for verb, row in ATTACKS[::16]:
                words = words_of(row, **scene)
                if is_open(verb, words):  # a command without shards is refused before its attack is seen
                    words.append("corpus=everyday")
                body = {"verb": verb, "overrides": words}
                told = http.post("/v1/plans", json=body)
                assert told.status_code == 400, (row, told.text)
                assert re.search(REASONS, told.text) and SECRET not in told.text
                asked = http.post("/v1/jobs", json=body)
                loop._take()
                assert asked.status_code == 400 or loop.ledger.job(asked.json()["id"]).state == "failed"
            mine = {"verb": "shard", "overrides": ["corpus=everyday"]}
            assert http.post("/v1/jobs", json=mine, headers={"X-Dragoman-Owner": "anna"}).status_code == 201
            loop._take()
            for verb in ("unpack", "train", "evaluate", "shard"):
                body = {
                    "verb": verb,
                    "overrides": [f"paths.shards={home}/shards/./anna/everyday-en-de-bpe", "name=new"],
                }
                told = http.post("/v1/plans", json=body, headers={"X-Dragoman-Owner": "bert"})
                assert (told.status_code, "belongs to another owner" in told.text) == (400, True), told.text
    finally:
        loop.intake.planner.close()
        loop.ledger.database.close()
