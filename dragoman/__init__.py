"""Dragoman from Python: the commands as functions, and trained models as objects.

    import dragoman

    dragoman.shard("experiment=demo")
    run = dragoman.train("experiment=demo", **{"train.max_steps": 200})
    print(run.scores["bleu"])
    model = dragoman.load(run.folder)
    print(model.translate("The dog sees the man.").text)

Settings are those of the command line: words (`"model=rnnenc"`), keywords (`name="mine"`, and with a dot
`**{"train.max_steps": 40}`), and `config=FILE.yaml`; keywords win over words, and both over the file. Names that are
not in `__all__` are private. In a checkout `dragoman/model` and its neighbours are links to the folders at the top.

Importing this package loads neither torch nor Ray and does not change the process; the first call does.
"""

from dragoman._errors import DragomanError
from dragoman._jobs import Job, submit
from dragoman._model import Model, load
from dragoman._pipelines import evaluate, promote, shard, train
from dragoman._results import Alternative, Evaluation, Neighbour, Promotion, Run, Shards, Translation

__all__ = [
    "Alternative",
    "DragomanError",
    "Evaluation",
    "Job",
    "Model",
    "Neighbour",
    "Promotion",
    "Run",
    "Shards",
    "Translation",
    "evaluate",
    "load",
    "promote",
    "shard",
    "submit",
    "train",
]
