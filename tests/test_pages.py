"""The commands of README.md and docs/, read out of the pages: each is what its verb takes, and the first hour runs."""

import ast
import gzip
import importlib
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from bench.__main__ import benchmarks
from dragoman.conf import compose
from dragoman.services import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:[A-Z_]+=\S+ )?dragoman [^`]+)`")
# What stands on the pages for something that the reader puts in.
PLACEHOLDERS = {
    "VERB": "train",
    "[promote.reason=...]": "promote.reason=...",
    "paths.shards=...:": "",
}
PROGRAMS = {
    *("chmod", "cp", "curl", "deploy/backup.sh", "deploy/make-secrets.sh", "docker", "du", "echo", "export", "grep"),
    *("install", "jq", "kubectl", "make", "mkdir", "mlflow", "mv", "pg_restore", "printf", "python", "ray", "source"),
    *("tar", "umask"),
}
# Keys whose value names a run or a registered model, which a command of the pages must make, or files of conf/model.
REFERENCES = re.compile(r"^(models|query\.vectors|bundle|evaluate\.against)=(.+)$")


def lines_of(page: str) -> list[str]:
    """The page's command lines: those of its `sh` blocks, continued ones joined, and those in running text."""
    text = PAGES[page].read_text(encoding="utf-8")
    blocks = [body.replace("\\\n", " ") for language, body in FENCED.findall(text) if language == "sh"]
    fenced = [line for body in blocks for line in body.splitlines() if line.strip()]
    return fenced + [" ".join(command.split()) for command in INLINE.findall(FENCED.sub("", text))]


def commands(line: str) -> list[list[str]]:
    """The words of each command of a line, without comments, redirections and variables set in front."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;")
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    skip = False
    for word in lexer:
        if word in ("|", ";"):
            found.append([])
        elif word in ("<", ">") or skip:
            skip = not skip
        elif found[-1] or not re.fullmatch(r"[A-Z_]+=\S*", word):
            found[-1].append(PLACEHOLDERS.get(word, word))
    return found


def verbs_of(page: str) -> list[list[str]]:
    """The words after `dragoman` of every command of the page that runs it."""
    return [
        words[words.index("dragoman") + 1 :]
        for line in lines_of(page)
        for words in commands(line)
        if "dragoman" in words
        and words[0] != "kubectl"  # whose namespace it is
        and words[words.index("dragoman") + 1] != "--version"
    ]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder, and a home that is out of sight: nothing of this machine makes a command right."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "absent"))
    (tmp_path / "mine.yaml").write_text("corpus: tsv\ncorpus.train.file: pairs.tsv\n")  # as docs/quickstart.md has it
    for name in ("RAY_ADDRESS", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


DISTINCT = {tuple(words): page for page in PAGES for words in verbs_of(page)}
AT_ONCE = 4  # commands of a test
PARTS = [(page, first) for page, count in Counter(DISTINCT.values()).items() for first in range(0, count, AT_ONCE)]


@pytest.mark.parametrize(("page", "first"), PARTS)
def test_every_command_of_a_page_is_one_that_its_verb_takes(
    page: str, first: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for language, body in FENCED.findall(PAGES[page].read_text(encoding="utf-8")):
        if language == "yaml" and (named := re.match(r"# (\w+\.yaml)", body)):  # a file that the page's commands read
            Path(named[1]).write_text(body, encoding="utf-8")
    for words in [words for words, where in DISTINCT.items() if where == page][first : first + AT_ONCE]:
        assert words[0] in cli.VERBS
        if len(words) > 1:
            with compose.rehearsal():
                code = cli.main(words)
            assert code == 0, f"dragoman {shlex.join(words)}\n{capsys.readouterr().err}"


def test_other_programs_of_a_page_are_known_and_what_they_name_is_there() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in (line for page in PAGES for line in lines_of(page)):
        for words in filter(None, commands(line)):
            assert words[0] in PROGRAMS | {"dragoman"}, line
            if words[0].startswith("deploy/"):
                assert (ROOT / words[0]).is_file(), line
            if words[:2] == ["make", "-f"]:
                assert (ROOT / words[2]).is_file(), line
            elif words[0] == "make":
                assert set(words[1:]) <= set(targets), line
            if words[:3] == ["python", "-m", "bench"]:
                assert (ROOT / "bench" / f"{words[3]}.py").is_file(), line


def test_names_that_are_asked_for_are_made_by_a_command_of_the_pages() -> None:
    made, asked = {file.stem for file in (ROOT / "conf" / "model").glob("*.yaml")}, []
    for words, page in DISTINCT.items():
        overrides = [word for word in words if "=" in word]
        if words[0] == "train" and "experiment=word2vec" in words:
            for model in ("skipgram", "glove", "tfidf"):  # of which the page says that each may stand there
                values = compose.values([*overrides, f"model={model}"])
                made |= {values["name"], values["registry"]["name"]}
        references = [found.groups() for found in map(REFERENCES.match, overrides) if found]
        # other verbs' bundles are often registered models, which a page may take as they are
        asked += [(page, value) for key, value in references if key != "bundle" or words[0] == "evaluate"]
    names = [
        (page, re.sub(r"^models:/|@\w+$", "", name)) for page, value in asked for name in value.strip("[]").split(",")
    ]
    unknown = [(page, name) for page, name in names if name not in made | {"RUN", "NAME"} and "/" not in name]
    assert not unknown, f"made are {sorted(made)}"


TEXT = "".join(
    f"{who} {does} the {what} , so the {what} {does} {who} .\n"
    for who in ("anna", "ben", "carl", "dora")
    for does in ("sees", "hears", "likes", "calls")
    for what in ("cat", "dog", "bird", "fish", "horse", "cow")
)
RECIPE = ("shard", "train", "promote")  # the verbs that know the settings which make them quick
LOCAL = ["cluster.backend=local", "tracking.system_metrics=false"]
# A page, the verbs of its first commands of a kind, and what makes them quick.
FIRST = {
    "README.md": (
        ["shard", "train", "neighbours"],
        [
            *LOCAL,
            "tracking.offline=true",
            "registry.register=false",
            "vectors.epochs=1",
            "vectors.evaluate.pictures=false",
        ],
        "BOOKS.txt.gz",
    ),
    "docs/language-models.md": (
        ["shard", "train", "promote", "generate"],
        [
            *(*LOCAL, "corpus.cut.valid=0.2", "loader.batch_tokens=128", "loader.context_length=32", "model.width=16"),
            *("model.embedding=8", "train.max_steps=4", "train.optimizer.warmup_steps=1", "generate.max_tokens=8"),
            *("promote.force=true", "promote.reason=four steps"),
        ],
        "tinyshakespeare.txt.gz",
    ),
}


@pytest.mark.parametrize("page", ["README.md", pytest.param("docs/language-models.md", marks=pytest.mark.long)])
def test_the_first_commands_of_a_page_run_one_after_another(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs, quick, corpus = FIRST[page]
    (tmp_path / corpus).write_bytes(gzip.compress(TEXT.encode()))
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    every = verbs_of(page)
    names = [words[0] for words in every]
    first = next(place for place in range(len(every)) if names[place : place + len(verbs)] == verbs)
    for words in every[first : first + len(verbs)]:
        put_in = [word.replace("FOLDER", str(tmp_path)) for word in words]
        recipe = words[0] in RECIPE
        known = [key for key in quick if key.startswith(words[0]) or (recipe and not key.startswith("generate"))]
        code, said = cli.main([*put_in, *known]), capsys.readouterr()
        assert code == 0, f"dragoman {shlex.join(words)}\n{said.out}{said.err}"
    assert said.out.strip()


def test_what_python_examples_import_is_there() -> None:
    blocks = [(page, *block) for page, path in PAGES.items() for block in FENCED.findall(path.read_text("utf-8"))]
    for page, language, body in blocks:
        for node in ast.walk(ast.parse(body)) if language == "python" else ():
            if isinstance(node, ast.ImportFrom) and node.module:
                module = importlib.import_module(node.module)
                assert [name.name for name in node.names if not hasattr(module, name.name)] == [], page


NAMED_FILE = re.compile(
    r"(?<![\w/.$}-])((?:bench|conf|deploy|docs|examples|model|pipelines|services|tests)/[\w./-]*\w\.(?:py|md|ya?ml|sh))\b"
)
LINK = re.compile(r"\]\(([^)\s:#]*)(?:#([^)\s]+))?\)")


def test_files_benchmarks_and_verbs_that_pages_and_the_product_name_are_there() -> None:
    product = [
        path
        for folder in ("bench", "conf", "deploy", "model", "pipelines", "services")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".yaml", ".yml", ".sh", ".html", ".js"}
    ]
    known, gone = benchmarks(), []
    for path in (*PAGES.values(), *product):
        text = path.read_text(encoding="utf-8")
        named = [file for file in NAMED_FILE.findall(text) if "NAME" not in file and not (ROOT / file).is_file()]
        named += [f"bench {name}" for name in re.findall(r"python -m bench ([a-z]\w*)", text) if name not in known]
        named += [f"dragoman {verb}" for verb in re.findall(r"`dragoman ([a-z]+)\b", text) if verb not in cli.VERBS]
        gone += [(path.relative_to(ROOT).as_posix(), one) for one in named]
    assert not gone


def test_links_between_pages_lead_to_pages_and_headings() -> None:
    for page, path in PAGES.items():
        for file, heading in LINK.findall(FENCED.sub("", path.read_text(encoding="utf-8"))):
            target = (path.parent / file).resolve() if file else path
            assert target.exists(), f"{page}: {file}"
            if heading:
                titles = re.findall(r"^#+ (.+)$", FENCED.sub("", target.read_text(encoding="utf-8")), re.MULTILINE)
                anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
                assert heading in anchors, f"{page}: {file}#{heading}"
