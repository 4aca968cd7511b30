"""A line's file: references, addresses, and what is refused."""

from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.services.lines.recipe import RECIPES, Step, find_recipe, read_line
from dragoman.services.lines.records import Records

LINE = """
vars:
  corpus: [corpus=phrasebook, pair=en-de]
  steps: 40
steps:
  student: {train: ["train.init_from=${teacher.bundle}",
    "paths.shards=${shards.shards}", "train.max_steps=${vars.steps}"]}
  shards: {shard: ["${vars.corpus}"]}
  teacher: {train: ["paths.shards=${shards.shards}", "name2=${paths.root}"]}
  promote: {promote: [], after: [student]}
"""


def read(tmp_path: Path, text: str = LINE, home: str = "/home", **changes: object) -> dict[str, Step]:
    path = tmp_path / "line.yaml"
    path.write_text(text, encoding="utf-8")
    return {step.name: step for step in read_line(path, home, changes, lambda path: path.read_text())}


def test_steps_come_after_those_that_they_need(tmp_path: Path) -> None:
    steps = read(tmp_path)
    assert list(steps) == ["shards", "teacher", "student", "promote"]
    assert steps["student"].after == ("teacher", "shards")
    assert steps["promote"].after == ("student",)


def test_references_become_the_places_of_the_other_steps(tmp_path: Path) -> None:
    steps = read(tmp_path)
    shards, teacher = steps["shards"], steps["teacher"]
    assert shards.words == ("corpus=phrasebook", "pair=en-de", f"paths.shards=/home/shards/{shards.label}")
    assert teacher.words[1] == "name2=${paths.root}"  # Hydra's
    assert steps["student"].words == (
        f"train.init_from=/home/runs/{teacher.label}/bundle",
        f"paths.shards=/home/shards/{shards.label}",
        "train.max_steps=40",
        f"name={steps['student'].label}",
    )


def test_a_step_has_another_address_where_what_goes_into_it_is_other(tmp_path: Path) -> None:
    before, after = read(tmp_path), read(tmp_path, LINE.replace('"name2=${paths.root}"', "seed=2"))
    assert before["shards"] == after["shards"]
    assert all(before[name].address != after[name].address for name in ("teacher", "student", "promote"))


def test_a_variable_of_the_command_line_changes_the_steps_that_use_it(tmp_path: Path) -> None:
    before, after = read(tmp_path), read(tmp_path, steps=50)
    assert "train.max_steps=50" in after["student"].words
    assert before["teacher"] == after["teacher"]
    assert before["student"].address != after["student"].address


def test_the_address_is_the_same_in_another_home(tmp_path: Path) -> None:
    here, there = read(tmp_path), read(tmp_path, home="/elsewhere")
    assert [step.address for step in here.values()] == [step.address for step in there.values()]


@pytest.mark.parametrize("word", ["corpus.train.file={0}/b.tsv", "'corpus.train.file=[{0}/a.tsv,{0}/b.tsv]'"])
def test_the_content_of_each_file_that_a_word_names_counts(tmp_path: Path, word: str) -> None:
    text = f"steps: {{shards: {{shard: [corpus=tsv, {word.format(tmp_path)}]}}}}"
    found = set()
    (tmp_path / "a.tsv").write_text("a\tb\n")
    for content in ("a\tb\n", "a\tc\n"):
        (tmp_path / "b.tsv").write_text(content)
        found.add(read(tmp_path, text)["shards"].address)
    assert len(found) == 2


def test_a_bare_word_that_is_a_file_counts_and_a_folder_of_that_name_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "steps: {shards: {shard: [corpus=tsv, corpus.train.file=pairs]}}"
    bare = read(tmp_path, text)["shards"].address
    (tmp_path / "tsv").mkdir()
    assert read(tmp_path, text)["shards"].address == bare
    (tmp_path / "pairs").write_text("a\tb\n")
    before = read(tmp_path, text)["shards"].address
    (tmp_path / "pairs").write_text("a\tc\n")
    assert len({bare, before, read(tmp_path, text)["shards"].address}) == 3


def test_what_no_step_makes_counts_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    files = [home / "own" / "pairs.tsv", tmp_path / "homework.tsv", tmp_path / "data" / "pairs.tsv"]
    words = f"corpus=tsv, corpus.root=data, 'corpus.train.file=[{files[0]},{files[1]}]'"
    found = set()
    for changed in (None, *files):
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("after" if file == changed else "before")
        (tmp_path / "line.yaml").write_text(f"steps: {{a: {{shard: [{words}]}}}}")
        digest = Records(home).digest
        found.add(read_line(tmp_path / "line.yaml", str(home), {}, digest)[0].address)
    assert len(found) == 4


def test_a_variable_may_refer_to_a_step(tmp_path: Path) -> None:
    text = """
vars: {begin: ["train.init_from=${teacher.run}"]}
steps: {student: {train: ["${vars.begin}"]}, teacher: {train: []}}
"""
    steps = read(tmp_path, text)
    assert steps["student"].words[0] == f"train.init_from={steps['teacher'].label}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps: {a: {train: ['x=${b.run}']}, b: {train: ['x=${a.run}']}}", "(a -> b -> a|b -> a -> b) need each"),
        ("steps: {a: {train: [], after: [a]}}", "the steps a -> a need each other"),
        ("steps: {a: {train: [], after: [nosuch]}}", "step a: after: 'nosuch' is not known. Choices: a"),
        ("steps: {a: {serve: []}}", "step a: command: 'serve' is not known. Choices: "),
        ("steps: {a: {shard: [], train: []}}", "step a: give one command"),
        ("steps: {a: [train]}", "step a: give one command"),
        ("steps: {a: {train: 5}}", "step a: words and `after` are lists"),
        ("steps: {a: {train: [name=mine]}}", "step a: name=mine: the line names what a step makes"),
        ("steps: {a: {shard: [name=mine]}}", "step a: name=mine: the line names what a step makes"),
        ("steps: {a: {shard: [+paths.shards=x]}}", "the line names what a step makes"),
        ("steps: {a: {train: ['x=${vars.nosuch}']}}", "step a: vars: 'nosuch' is not known"),
        ("{vars: {l: [b=1]}, steps: {a: {train: ['x=${vars.l}']}}}", "vars.l is a list of words, which stands alone"),
        ("{vars: {train: null}, steps: {a: {train: []}}}", "vars.train has no value"),
        ("steps: {a: {shard: []}, b: {train: ['x=${a.run}']}}", "output: 'run' is not known. Choices: shards"),
        ("steps: {../a: {shard: []}}", "step"),
        ("steps: {}", "steps is empty"),
        ("steps: [a]", "a line has `steps`"),
        ("other: 5", "a line has `steps`"),
        ("steps: {a: [", "cannot be read"),
        ("steps: {a: {train: []}, a: {shard: []}}", r"cannot be read \(a stands twice"),
        ("vars: {x: 1, x: 2}\nsteps: {a: {train: []}}", r"cannot be read \(x stands twice"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(tmp_path, text)


def test_an_unknown_variable_of_the_command_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"vars: 'nosuch' is not known\. Choices: corpus, steps"):
        read(tmp_path, nosuch=1)


@pytest.mark.parametrize("recipe", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_the_shipped_recipes_can_be_read(recipe: str) -> None:
    needed = {
        "backtranslate": dict.fromkeys(("train", "valid", "test", "text"), "f.jsonl"),
        "domain": {"domain": ["corpus=tsv"]},
        "low_resource": {"text": ["corpus=tsv"], "pairs": ["corpus=tsv"]},
    }
    steps = read_line(find_recipe(recipe), "/home", needed.get(recipe, {}), lambda path: "")
    assert steps[-1].verb == "promote"


def test_a_line_is_a_file_or_a_recipe(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"'nosuch' is not known\. Choices: backtranslate, domain, low_resource, student"
    ):
        find_recipe("nosuch")
    with pytest.raises(UserError, match=r"nosuch.yaml: there is no such file"):
        find_recipe("nosuch.yaml")
    (tmp_path / "mine.yaml").touch()
    assert find_recipe(str(tmp_path / "mine.yaml")) == tmp_path / "mine.yaml"
