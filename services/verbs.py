"""The table of the command line's verbs.

It names modules as text, so that this package never imports `pipelines`, and so that help and completion load neither
torch nor Ray nor MLflow.
"""

from typing import NamedTuple


class Verb(NamedTuple):
    """A verb: the module whose `main(argv) -> exit code` it runs, a line of help, and what its help page shows."""

    module: str
    help: str
    usage: str = "[key=value ...]"
    sections: tuple[str, ...] = ()  # the configuration sections that it reads first of all


VERBS: dict[str, Verb] = {
    "shard": Verb(
        "pipelines.entries", "a corpus becomes packed shards", sections=("corpus", "tokenizer", "shards", "cluster")
    ),
    "train": Verb(
        "pipelines.entries",
        "train a model on shards; the same name again resumes",
        sections=("model", "train", "loader", "cluster", "tracking"),
    ),
    "verify": Verb(
        "pipelines.entries",
        "prove that a run saw the batches of an undisturbed one, and kept its weights",
        "RUN [key=value ...]",
        ("verify",),
    ),
    "evaluate": Verb(
        "pipelines.entries",
        "score a trained model on a held-out set",
        sections=("evaluate", "decode", "alignment", "registry"),
    ),
    "compare": Verb(
        "pipelines.entries",
        "networks with equal budgets side by side, on one page",
        "models=[MODEL,...] [key=value ...]",
        ("compare", "train", "evaluate", "cluster"),
    ),
    "promote": Verb(
        "pipelines.entries", "make the better model the champion", sections=("promote", "registry", "tracking")
    ),
    "rollback": Verb(
        "pipelines.entries", "put the champion before this one back", sections=("promote", "registry", "tracking")
    ),
    "sync": Verb("pipelines.sync", "send tracked metrics that wait on disk", sections=("tracking",)),
    "unpack": Verb("pipelines.unpack", "shards back to text", sections=("shards",)),
    "translate": Verb(
        "services.entries",
        "translate a text, files or standard input, no server",
        "[TEXT] [key=value ...]",
        ("translate", "decode", "alignment"),
    ),
    "generate": Verb(
        "services.entries",
        "a language model goes on with texts, no server",
        "[TEXT] [key=value ...]",
        ("generate", "registry"),
    ),
    "embed": Verb("services.entries", "texts as vectors, no server", "[TEXT] [key=value ...]", ("embed", "registry")),
    "score": Verb("services.entries", "log-probabilities of given pairs or texts, no server", sections=("score",)),
    "rerank": Verb(
        "services.entries", "reorder another system's n-best lists with our model's score", sections=("rerank",)
    ),
    "serve": Verb(
        "services.entries", "answer over HTTP: translations, word vectors or both", sections=("serve", "decode")
    ),
    "neighbours": Verb(
        "services.commands.query", "the words nearest to a word, by its vector", "WORD... [key=value ...]", ("query",)
    ),
    "analogy": Verb(
        "services.commands.query", "A is to B as C is to which words", "A B C... [key=value ...]", ("query",)
    ),
    "export": Verb(
        "services.commands.export",
        "word vectors in other programs' formats",
        "[FORMAT...] [key=value ...]",
        ("export",),
    ),
    "inspect": Verb(
        "services.commands.inspect",
        "what a shard, a bundle or a checkpoint holds and was made from",
        "PATH [key=value ...]",
        ("inspect",),
    ),
    "runs": Verb("services.commands.runs", "list the runs: state, score, age, size", sections=("runs",)),
    "models": Verb(
        "services.commands.models", "list the registered versions: alias, score, age, size", sections=("tracking",)
    ),
    "clean": Verb(
        "services.commands.clean", "delete old runs, caches and dead Ray sessions; asks first", sections=("clean",)
    ),
    "up": Verb("services.jobs.up", "the whole service on this machine, until Ctrl-C", sections=("service",)),
    "submit": Verb("services.jobs.entries", "plan a verb and queue it as a job", "VERB [key=value ...]", ("jobs",)),
    "jobs": Verb("services.jobs.entries", "list the jobs (-f: live)", "[-f] [key=value ...]", ("jobs",)),
    "job": Verb("services.jobs.entries", "a job and everything that happened to it", "JOB [key=value ...]", ("jobs",)),
    "why": Verb("services.jobs.entries", "what a job waits for, and until when", "JOB [key=value ...]", ("jobs",)),
    "logs": Verb("services.jobs.entries", "show a job's output (-f: follow it)", "JOB [-f] [key=value ...]", ("jobs",)),
    "stop": Verb("services.jobs.entries", "stop a job", "JOB [key=value ...]", ("jobs",)),
    "yield": Verb("services.jobs.entries", "have a job make room and go on later", "JOB [key=value ...]", ("jobs",)),
    "retry": Verb("services.jobs.entries", "queue an ended job again", "JOB [key=value ...]", ("jobs",)),
    "priority": Verb(
        "services.jobs.entries", "put a job before or behind others", "JOB low|normal|high [key=value ...]", ("jobs",)
    ),
    "rm": Verb("services.jobs.entries", "forget an ended job", "JOB [key=value ...]", ("jobs",)),
    "report": Verb("services.jobs.entries", "a job on one HTML page", "JOB [key=value ...]", ("jobs",)),
    "sweep": Verb(
        "services.sweeps.entries",
        "search over settings: trials are jobs, losers end early",
        "train 'KEY=choice(A,B)' 'KEY=interval(A,B)' [key=value ...]",
        ("sweep", "jobs"),
    ),
    "bill": Verb("services.jobs.entries", "what faults have cost: tokens, time", "[OWNER] [key=value ...]", ("jobs",)),
    "drill": Verb(
        "services.jobs.drill.entry",
        "make faults at the service of this machine, measure how it recovers",
        "[FAULT...] [key=value ...]",
        ("jobs",),
    ),
    "quota": Verb(
        "services.jobs.entries",
        "what owners may hold together",
        "[OWNER cpus=N|none gpus=N|none] [key=value ...]",
        ("jobs",),
    ),
    "owner": Verb(
        "services.jobs.entries",
        "whose registered models are: list, give to another",
        "[MODEL OWNER] [key=value ...]",
        ("jobs",),
    ),
    "token": Verb(
        "services.jobs.entries",
        "who may ask the service: list, issue, rotate, revoke",
        "[issue NAME owner=OWNER role=ROLE | rotate NAME | revoke NAME] [key=value ...]",
        ("jobs",),
    ),
    "doctor": Verb(
        "services.commands.doctor", "what this machine offers and what is missing", "[key=value ...]", ("jobs",)
    ),
    "demo": Verb("services.commands.demo", "the whole main job on the built-in corpus, in minutes"),
}
TEXT_FIRST = {"translate", "generate", "embed"}  # verbs that take a text on the command line
# Modules of several verbs: they are told which one.
SHARED_MODULES = {"pipelines.entries", "services.entries", "services.jobs.entries", "services.commands.query"}
