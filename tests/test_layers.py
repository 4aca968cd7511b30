"""The house as docs/architecture.md draws it: a room imports from those above it, one door for each heavy library.

Rooms are named without `dragoman.` here, as their folders are at the top of the repository.
"""

import ast
import itertools
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
# What a package may import of ours.
ALLOWED = {
    "model": {"model"},
    "pipelines": {"pipelines", "model", "conf"},
    "services": {"services", "model", "conf"},
    "dragoman": {"dragoman", "services", "pipelines", "model", "conf"},
    "conf": {
        "conf",
        "model.addresses",
        "model.errors",
        "model.ranges",
        "model.renamed",
        "model.schema",
        "model.storage",
    },
}
HOUSE = ("model", "pipelines", "services")  # the packages with rooms
LINKED = ("conf", *HOUSE)  # folders at the top that `dragoman/` holds links to
# Files at a package's top that the picture leaves out: the place that they stand right after. All others are what
# everything in their package may use.
BESIDE = {
    "model.settings": "model.text",  # ids that are never generated
    "model.precision": "model.text",
    "pipelines.entries": "pipelines.verbs",
    "pipelines.places": "pipelines.verbs",
    "services.choices": "services.commands",
    "services.config": "services.commands",
    "services.entries": "services.commands",
    "services.from_home": "services.models",
    "services.help": "services.commands",
    "services.completion": "services.commands",
}
WHOLE_CONFIG = {"pipelines.config", "pipelines.tasks", "pipelines.comparison", "pipelines.verbs", "pipelines.entries"}
# Who imports ours inside of functions, and why.
INSIDE = {
    "services.models.loaded_vectors": "torch, which vectors of texts need and words alone need not",
    "services.commands.export": "torch, which networks need and word vectors need not",
    "services.commands.query": "torch, which words in a text need and words alone need not",
    "services.from_home": "MLflow, which only a home with models asks",
    "services.commands.inspect": "torch, which only a network's parameters need",
    "model.text.batch": "numba; NumPy does it where there is none",
    "model.word_vectors.word2vec": "numba, which a machine that trains on its GPU alone needs not",
    "model.word_vectors.glove": "numba, as for word2vec",
    "model.word_vectors.batched": "triton, which there is on a GPU alone",
    "pipelines.cluster.ray_train": "Ray Train, which only the driver of a training loads",
    "pipelines.tasks.launch": "Ray Train, which the ends of a bridge between machines load",
    "pipelines.tracking.sender": "imports much of MLflow, which only registering needs",
    **dict.fromkeys(
        (
            *(
                "model.bundles.directory",
                "model.bundles.network",
                "model.bundles.translation",
                "model.inference.engines",
            ),
            *("model.inference.kinds", "model.inference.translator", "services.endpoint.guess_routes"),
            *("services.models.loaded_encoder", "services.models.loaded_guesser", "services.models.loaded_labeller"),
            *("services.models.loaded_model", "services.models.source"),
        ),
        "torch, which a service that translates by CTranslate2 needs not",
    ),
    **dict.fromkeys(
        ("dragoman._jobs", "dragoman._model", "dragoman._pipelines"), "torch and the rest: `import dragoman` is quick"
    ),
    "dragoman.__main__": "the command line, which sets up what it starts first",
    "services.commands.attention": "matplotlib, where a picture is asked for",
    "services.commands.doctor": "torch, which may be what is missing",
}
HIDDEN = re.compile(r"\w+(\.\w+)*\._[a-z]\w*(\.\w+)*")  # a private module by its name
STORED = re.compile(r"pipelines\.tracking\.(\w+_model|pyfunc)")  # run by MLflow, where `model` is found only at loading
# Where a heavy library may be imported: files or folders.
DOORS = {
    "ray": ["pipelines/cluster", "services/endpoint/ray_serve.py", "services/jobs/executors/ray.py"],
    "mlflow": [
        "model/mlflow_client.py",
        "pipelines/tracking",
        "services/models/registry.py",
        "services/jobs/up/mlflow.py",  # in the process of MLflow itself
    ],
    "hydra": ["conf", "services/sweeps/space.py"],
    "omegaconf": ["conf"],
    "webdataset": ["model/shards"],
    "huggingface_hub": ["model/huggingface/hub.py"],
    "tokenizers": ["model/text/huggingface_tokenizer.py"],
    "transformers": ["pipelines/evaluation/sets/learned.py"],
    "fsspec": ["model/storage/remote.py"],
    "fastapi": [
        "services/http",
        "services/endpoint",
        "services/jobs/http",
        "services/jobs/pages",
        "services/jobs/service",
        "services/jobs/up/app.py",
    ],
    "optuna": ["services/sweeps"],
    "py3langid": ["services/endpoint/detection.py", "pipelines/corpus/clean/identifier.py"],
    "polib": ["services/texts/documents/po.py"],
    "rapidfuzz": ["pipelines/evaluation/pair_rules.py", "services/texts/known.py"],
    "simplemma": ["services/texts/casing.py"],
    "sqlalchemy": ["services/store", "services/endpoint", "services/jobs", "services/repeating.py"],
    "opentelemetry": ["services/telemetry"],
}
# Modules of ours that are named by strings: imported when they are needed, or started as processes.
BY_STRING = {
    "pipelines.cluster.embedded_ray": {"pipelines.cluster.ray_head"},  # a process
    "services.choices": {"pipelines.config", "services.config"},  # completion loads them for a value alone
    "pipelines.import_model": {"pipelines.tasks.importing"},  # loads torch
    "services.commands.demo": {"services.cli"},  # a process
    "services.endpoint.documents.reading": {"services.endpoint.documents.reading_worker"},  # a process
    "services.endpoint.serve": {"services.endpoint.ray_serve"},  # loads Ray, which the endpoint's image has not
    "services.jobs.confined": {"services.cli"},  # only after its files are closed to it
    "services.jobs.executors.base": {"services.jobs.runner"},  # a process
    "services.jobs.planning.fields": {"pipelines.config"},  # services import no pipelines; the planner's process does
    "services.jobs.planning.planner": {"services.jobs.planning.worker"},  # a process
    "services.jobs.planning.refusals": {"pipelines.places"},  # as planning.fields
    "services.jobs.runner": {"services.jobs.confined"},  # a process
    "services.jobs.service.outbox": {"services.cli"},  # a process
    "services.jobs.up.children": {"services.jobs.up.guard"},  # a process
    "services.jobs.up.entry": {"services.jobs.up.serving"},  # loads Ray and MLflow
    "services.jobs.up.subprocesses": {"services.cli", "services.jobs.up.head", "services.jobs.up.mlflow"},
    "services.models.aligning": {"services.models.aligning_worker"},  # a process
    "services.texts.documents.kinds": {"services.texts.documents"},  # a kind's file with its library, when it is needed
    "services.lines.entries": {"services.lines.line"},  # opens the job service's client
    "services.sweeps.entries": {"services.sweeps.sweep"},  # loads Optuna
}
TABLES = {"services.verbs", "services.entries", "pipelines.entries", "pipelines.tasks.base"}  # of commands and tasks
# Names of libraries that begin with an underscore, and why they are used: an upgrade may take them away.
PRIVATE = dict.fromkeys(
    [("pipelines.training.optimizer", f"torch._foreach_{name}") for name in ("add_", "lerp", "lerp_", "mul_")],
    "torch documents its operations on lists of tensors under these names, and has no others",
)


class Import(NamedTuple):
    """A module that a file imports: where, and whether inside of a function."""

    file: str
    line: int
    name: str
    inside: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.name}"


@cache
def modules() -> dict[str, Path]:
    """Every module of ours by its name without `dragoman.`; those of `dragoman/` itself keep it."""
    found = {}
    for path in itertools.chain.from_iterable(sorted((ROOT / package).rglob("*.py")) for package in ALLOWED):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def short(name: str) -> str:
    """The name of a module as `modules` has it."""
    package, _, rest = name.partition(".")
    return rest if package == "dragoman" and rest.partition(".")[0] in LINKED else name


@cache
def imports(module: str) -> list[Import]:
    """Every module that a file imports, at its top, inside of functions or for the type checker alone."""
    path = modules()[module]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    within = {id(node) for function in functions for node in ast.walk(function)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, f"{path}:{node.lineno}: a relative import"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if short(name) in modules() else node.module for name in full]
        else:
            continue
        place = str(path.relative_to(ROOT))
        found += [Import(place, node.lineno, short(name), id(node) in within) for name in names]
    return found


def ours(package: str) -> Iterator[tuple[str, Import]]:
    """(module, import) of all imports inside of a package, none of the module itself."""
    for module in modules():
        if module.split(".")[0] == package:
            yield from ((module, one) for one in imports(module) if one.name.startswith(package) and one.name != module)


@cache
def texts(module: str) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """(line, text) of all texts of a file, and of those that a path is joined with by `/`."""
    every, joined = [], []
    for node in ast.walk(ast.parse(modules()[module].read_text(encoding="utf-8"))):
        sides = (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else ()
        for place, found in ((node, every), *((side, joined) for side in sides)):
            if isinstance(place, ast.Constant) and isinstance(place.value, str):
                found.append((place.lineno, place.value))
    return every, joined


@cache
def picture() -> dict[str, tuple[str, ...]]:
    """The places of the house from the bottom up, `package.room` -> the words that its line begins with."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = next(block for block in re.findall(r"```\n(.*?)```", page, re.DOTALL) if block.startswith("model"))
    places: dict[str, tuple[str, ...]] = {}
    package = ""
    for line in lines.splitlines():
        name, *words = re.findall(r"\w+", line)
        if not line.startswith(" "):
            package = name
        places[package if package == name else f"{package}.{name}"] = tuple(words)
    return places


@cache
def inner_picture() -> dict[str, list[str]]:
    """The rooms inside of a large room from the bottom up: `package.room` -> names of files and folders."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = next(
        block for block in re.findall(r"```\n(.*?)```", page, re.DOTALL) if block.startswith("pipelines/corpus")
    )
    rooms: dict[str, list[str]] = {}
    for line in block.splitlines():
        if line.startswith(" "):
            names, _, _ = line.strip().partition("  ")
            rooms[list(rooms)[-1]].append(names)
        else:
            rooms[line.split()[0].replace("/", ".")] = []
    return rooms


@cache
def verbs() -> frozenset[str]:
    return frozenset(f"pipelines.{word}" for word in picture()["pipelines.verbs"])


def place(module: str) -> str:
    """The room of a module, `package` for what everything there may use, or one of BESIDE."""
    package, *rest = module.split(".")
    name = f"{package}.{rest[0]}" if rest else package
    if name in verbs():
        return f"{package}.verbs"
    if name in picture() or name in BESIDE:
        return name
    assert modules().get(name, ROOT).name != "__init__.py" or not rest, f"docs/architecture.md does not draw {name}"
    return package


def height(module: str) -> float:
    """How high in the house a module stands."""
    name = place(module)
    return list(picture()).index(BESIDE.get(name, name)) + 0.5 * (name in BESIDE)


def wrong(found: Iterable[Import]) -> str:
    return "\n".join(sorted({str(one) for one in found}))


def test_nothing_imports_ours_by_the_names_of_the_folders() -> None:
    """`import model` is somebody else's package, or a second copy of ours."""
    names = "|".join(LINKED)
    statement = rf"(?<![\w.])(from ({names})(\.[\w.]+)? import|import ({names})\b)"
    bare = re.compile(rf"^[^#\n]*({statement}|[\"'](pipelines|services)\.(\w|{{))", re.MULTILINE)
    files = [path for folder in (*ALLOWED, "bench", "deploy", "tests") for path in (ROOT / folder).rglob("*.py")]
    found = {
        f"{path.relative_to(ROOT)}: {match[0].strip()}"
        for path in files
        if path != Path(__file__)
        for match in bare.finditer(path.read_text(encoding="utf-8"))
    }
    assert not found, sorted(found)
    assert all((ROOT / "dragoman" / name).samefile(ROOT / name) for name in LINKED)


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_one_way(package: str) -> None:
    for module in modules():
        for one in imports(module) if module.split(".")[0] == package else ():
            if one.name.split(".")[0] in {*ALLOWED, "bench"}:
                assert any(one.name == good or one.name.startswith(f"{good}.") for good in ALLOWED[package]), str(one)


def test_the_picture_is_the_house() -> None:
    """Every room that is drawn is a folder, a file or the verbs, and every folder is drawn."""
    for name in picture():
        assert name in modules() or name == "pipelines.verbs", name
    assert verbs() <= set(modules())
    rooms = {f"{package}.{path.parent.name}" for package in HOUSE for path in (ROOT / package).glob("*/__init__.py")}
    assert rooms <= set(picture())
    assert set(BESIDE) <= set(modules()), "files in BESIDE that are no more"


def test_the_readmes_tree_is_that_of_the_folders() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tree = re.findall(r"^( *)(\w+)/ {2,}\S", text, flags=re.MULTILINE)
    drawn: dict[str, list[str]] = {}
    for indent, name in tree:
        if indent:
            drawn[list(drawn)[-1]].append(name)
        else:
            drawn[name] = []
    for package in HOUSE:
        rooms = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
        assert sorted(drawn[package]) == sorted(rooms), package
    assert all((ROOT / name).is_dir() for name in drawn)


@pytest.mark.parametrize("package", HOUSE)
def test_a_room_imports_from_those_above_it_only(package: str) -> None:
    climbing = wrong(one for module, one in ours(package) if height(one.name) > height(module))
    assert not climbing, climbing


@pytest.mark.parametrize("room", ["pipelines.corpus", "services.jobs"])
def test_inside_of_a_large_room_imports_go_down_only(room: str) -> None:
    heights = {name: at for at, names in enumerate(inner_picture()[room]) for name in names.split(", ")}
    inside = {module.split(".")[2] for module in modules() if module.startswith(f"{room}.")}
    assert inside == set(heights), "docs/architecture.md draws other files and folders"
    climbing = [
        f"{module} uses {name}"
        for module in modules()
        for name in [*(one.name for one in imports(module)), *BY_STRING.get(module, ())]
        if module.startswith(f"{room}.") and name.startswith(f"{room}.")
        if heights[name.split(".")[2]] > heights[module.split(".")[2]]
    ]
    assert not climbing, "\n".join(climbing)


def test_modules_that_are_named_by_strings_are_in_the_table() -> None:
    found: dict[str, set[str]] = {}
    for module in modules():
        for _, text in texts(module)[0]:
            name = short(text.partition(":")[0]) if text.startswith("dragoman.") else ""
            if name in modules() and name != module:
                found.setdefault(module, set()).add(name)
    assert {module: names for module, names in found.items() if module not in TABLES} == BY_STRING
    assert set(found) >= TABLES


@pytest.mark.parametrize("package", HOUSE)
def test_no_file_imports_in_a_circle(package: str) -> None:
    graph: dict[str, set[str]] = {}
    for module, one in ours(package):
        graph.setdefault(module, set()).add(one.name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as problem:
        pytest.fail(" <- ".join(problem.args[1]))


def test_nobody_imports_a_verb() -> None:
    """The command line has them by name; each stands for itself."""
    found = wrong(one for module, one in ours("pipelines") if one.name in verbs())
    assert not found, found


def test_only_verbs_tasks_and_comparisons_take_the_whole_configuration() -> None:
    """Everything else takes its own section."""
    takers = (one for module, one in ours("pipelines") if place(module) not in WHOLE_CONFIG)
    found = wrong(one for one in takers if one.name == "pipelines.config")
    assert not found, found


def test_imports_of_ours_stand_at_the_top() -> None:
    inside = [
        (module, one)
        for module in modules()
        for one in imports(module)
        if one.inside and one.name in modules() and not STORED.fullmatch(module)
    ]
    found = wrong(one for module, one in inside if module not in INSIDE)
    assert not found, found
    assert set(INSIDE) == {module for module, _ in inside}, "the table of reasons is out of date"


@pytest.mark.parametrize("library", sorted(DOORS))
def test_a_heavy_library_has_its_doors_only(library: str) -> None:
    used = {one.file for module in modules() for one in imports(module) if one.name.split(".")[0] == library}
    for door in DOORS[library]:
        through = {file for file in used if file == door or file.startswith(f"{door}/")}
        assert through, f"{door} does not import {library}: the table of doors is out of date"
        used -= through
    assert not used, f"{library} is imported by {', '.join(sorted(used))}"


def private_names(module: str) -> Iterator[str]:
    """The names with a leading underscore that a file takes from libraries: imported, by string, or as an attribute."""
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    known = {*ALLOWED, "bench", *sys.stdlib_module_names}
    bound: dict[str, str] = {}  # name here -> what it is
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            full = {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and HIDDEN.fullmatch(node.value):
            full = {node.value: node.value} if find_spec(node.value.partition(".")[0]) else {}
        else:
            continue
        bound |= {name: what for name, what in full.items() if what.partition(".")[0] not in known}
    used = {bound[name].partition(".")[0] + rest for name, rest in attributes(tree) if name in bound}
    given = {
        f"{bound[name]}{rest}({keyword.arg})"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for name, rest in itertools.islice(attributes(node.func), 1)
        if name in bound
        for keyword in node.keywords
        if keyword.arg and keyword.arg.startswith("_") and not keyword.arg.startswith("__")
    }
    yield from given
    for name in used | set(bound.values()):
        parts = name.split(".")
        private = [at for at, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")]
        if private:
            yield ".".join(parts[: private[0] + 1])


def attributes(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The chains of attributes of plain names: (a, ".b.c") for `a.b.c`."""
    for node in ast.walk(tree):
        rest, place = "", node
        while isinstance(place, ast.Attribute):
            rest, place = f".{place.attr}{rest}", place.value
        if rest and isinstance(place, ast.Name):
            yield place.id, rest


def test_no_private_name_of_a_library_is_used() -> None:
    found = {(module, name) for module in modules() for name in private_names(module)}
    assert not found - set(PRIVATE), sorted(found - set(PRIVATE))
    assert not set(PRIVATE) - found, "the table of reasons is out of date"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from ray._raylet import Config", {"ray._raylet"}),
        ("from ray import _raylet", {"ray._raylet"}),
        ("import ray._private.services as s", {"ray._private"}),
        ("import ray\nray._private.state.state()", {"ray._private"}),
        ("import ray\nray.init(_temp_dir=1)", {"ray.init(_temp_dir)"}),
        ("import_module('torch._dynamo.utils')", {"torch._dynamo"}),
        ("import os\nos._exit(0)", set()),
        ("import ray\nray.__version__", set()),
    ],
)
def test_private_names_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: set[str]) -> None:
    (tmp_path / "played.py").write_text(text)
    monkeypatch.setitem(modules(), "played", tmp_path / "played.py")
    assert set(private_names("played")) == found


@cache
def run_names() -> frozenset[str]:
    """The names of the files and folders of a run, as model/runs has them in its constants."""
    found = set()
    for path in sorted((ROOT / "model" / "runs").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign):
                found |= {one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)}
    return frozenset(name for name in found if isinstance(name, str) and re.fullmatch(r"[a-z]+(\.[a-z]+)?", name))


def test_a_file_of_a_run_is_named_in_its_room_only() -> None:
    """Everybody else asks model/runs: a name that stands twice is changed once, and a run of before is lost."""
    names = run_names() - {"lock", "ray", "manifest.json", "sent.json"}  # of other folders too
    assert {"run.json", "steps.jsonl", "checkpoints", "bundle", "records.jsonl"} <= names
    begins = ("evaluation.", "hypotheses.", "checkpoints/", "spool/", "bundle/")
    wrong = []
    for module, path in modules().items():
        if not module.startswith("model.runs"):
            every, joined = texts(module)
            bad = [(line, text) for line, text in joined if text in names]
            for line, text in every:
                last = text.rpartition("/")[2]
                bad += [(line, text)] * (("." in last and last in names) or text.startswith(begins))
            wrong += [f"{path.relative_to(ROOT)}:{line} names {text!r}" for line, text in bad]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_the_loop_runs_without_the_heavy_libraries() -> None:
    """On a machine without them: loop, networks, loader and reader import."""
    code = (
        "import sys\n"
        "for name in ('ray', 'mlflow', 'hydra', 'omegaconf', 'webdataset', 'fastapi', 'sacrebleu', 'numba'):\n"
        "    sys.modules[name] = None\n"
        "from dragoman.model.decoding import search\n"
        "from dragoman.model.networks import architectures\n"
        "from dragoman.model.shards import reader\n"
        "from dragoman.model.word_vectors import batched\n"
        "from dragoman.pipelines.cluster import ranks\n"
        "from dragoman.pipelines.loaders import pairs\n"
        "from dragoman.pipelines.training import checkpoint, loop\n"
        "from dragoman.pipelines.word_vectors import loop\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)


@pytest.mark.long
def test_a_corpus_is_looked_at_and_sharded_without_torch() -> None:
    """Torch and Numba take longer to load than the look at a corpus takes."""
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from dragoman.pipelines import shard\n"
        "assert not {'ray', 'numba', 'mlflow'} & {*sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)


@pytest.mark.long
def test_importing_makes_nothing() -> None:
    """No folder, no logger handler, no network: only names."""
    code = (
        "import logging, os\n"
        "before = set(os.listdir('.'))\n"
        "from dragoman.model.inference import translator\n"
        "from dragoman.pipelines import shard, train\n"
        "from dragoman.services import cli\n"
        "from dragoman.services.endpoint import app\n"
        "assert set(os.listdir('.')) == before\n"
        "assert not logging.getLogger().handlers\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)
