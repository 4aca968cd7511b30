"""The table of the commands.

It names modules as strings, so that this package never imports `pipelines`, and help and completion load neither torch
nor Ray nor MLflow.
"""

from typing import NamedTuple


class Verb(NamedTuple):
    """A command: the module whose `main(argv) -> exit code` it runs, a line of help, and the parts of its help page."""

    module: str
    help: str
    usage: str = "[key=value ...]"
    sections: tuple[str, ...] = ()  # the configuration sections that it reads first of all


VERBS: dict[str, Verb] = {
    "shard": Verb(
        "pipelines.entries", "pack a corpus into shards", sections=("corpus", "tokenizer", "shards", "cluster")
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
        "train networks with equal budgets and compare them on one page",
        "models=[MODEL,...] [key=value ...]",
        ("compare", "train", "evaluate", "cluster"),
    ),
    "promote": Verb(
        "pipelines.entries", "make the better model the champion", sections=("promote", "registry", "tracking")
    ),
    "rollback": Verb(
        "pipelines.entries",
        "make the previous champion the champion again",
        sections=("promote", "registry", "tracking"),
    ),
    "sync": Verb("pipelines.sync", "send records that wait on disk to MLflow", sections=("tracking",)),
    "unpack": Verb("pipelines.unpack", "turn shards back into text", sections=("shards",)),
    "translate": Verb(
        "services.entries",
        "translate a text, files or standard input, no server",
        "[TEXT] [key=value ...]",
        ("translate", "decode", "alignment"),
    ),
    "generate": Verb(
        "services.entries",
        "continue texts with a language model, no server",
        "[TEXT] [key=value ...]",
        ("generate", "registry"),
    ),
    "embed": Verb(
        "services.entries", "turn texts into vectors, no server", "[TEXT] [key=value ...]", ("embed", "registry")
    ),
    "score": Verb("services.entries", "compute log-probabilities of pairs or texts, no server", sections=("score",)),
    "rerank": Verb(
        "services.entries", "reorder another system's n-best lists with our model's score", sections=("rerank",)
    ),
    "serve": Verb(
        "services.entries", "serve translations, word vectors or both over HTTP", sections=("serve", "decode")
    ),
    "clients": Verb(
        "services.clients.clients",
        "ask a server with every client of other services that is installed",
        "[URL] [key=value ...]",
        ("clients",),
    ),
    "neighbours": Verb(
        "services.commands.query",
        "find the words nearest to a word, by its vector",
        "WORD... [key=value ...]",
        ("query",),
    ),
    "analogy": Verb(
        "services.commands.query", "find the words that are to C as B is to A", "A B C... [key=value ...]", ("query",)
    ),
    "export": Verb(
        "services.commands.export",
        "write word vectors in other programs' formats",
        "[FORMAT...] [key=value ...]",
        ("export",),
    ),
    "inspect": Verb(
        "services.commands.inspect",
        "show the content and origin of a shard, bundle or checkpoint",
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
    "up": Verb("services.jobs.up", "run the whole service on this machine, until Ctrl-C", sections=("service",)),
    "submit": Verb("services.jobs.entries", "plan a verb and queue it as a job", "VERB [key=value ...]", ("jobs",)),
    "jobs": Verb("services.jobs.entries", "list the jobs (-f: live)", "[-f] [key=value ...]", ("jobs",)),
    "job": Verb("services.jobs.entries", "show a job and its history", "JOB [key=value ...]", ("jobs",)),
    "why": Verb("services.jobs.entries", "show what a job waits for, and until when", "JOB [key=value ...]", ("jobs",)),
    "logs": Verb("services.jobs.entries", "show a job's output (-f: follow it)", "JOB [-f] [key=value ...]", ("jobs",)),
    "stop": Verb("services.jobs.entries", "stop a job", "JOB [key=value ...]", ("jobs",)),
    "yield": Verb(
        "services.jobs.entries", "make a job release its resources and resume later", "JOB [key=value ...]", ("jobs",)
    ),
    "retry": Verb("services.jobs.entries", "queue an ended job again", "JOB [key=value ...]", ("jobs",)),
    "priority": Verb("services.jobs.entries", "set a job's priority", "JOB low|normal|high [key=value ...]", ("jobs",)),
    "rm": Verb("services.jobs.entries", "delete an ended job", "JOB [key=value ...]", ("jobs",)),
    "report": Verb(
        "services.jobs.entries", "write a report of a job as one HTML page", "JOB [key=value ...]", ("jobs",)
    ),
    "sweep": Verb(
        "services.sweeps.entries",
        "search over settings: trials are jobs, bad ones stop early",
        "train 'KEY=choice(A,B)' 'KEY=interval(A,B)' [key=value ...]",
        ("sweep", "jobs"),
    ),
    "bill": Verb(
        "services.jobs.entries", "show what faults have cost: tokens, time", "[OWNER] [key=value ...]", ("jobs",)
    ),
    "drill": Verb(
        "services.jobs.drill.entry",
        "cause faults in this machine's service and measure its recovery",
        "[FAULT...] [key=value ...]",
        ("jobs",),
    ),
    "quota": Verb(
        "services.jobs.entries",
        "show or set the quota of an owner",
        "[OWNER cpus=N|none gpus=N|none] [key=value ...]",
        ("jobs",),
    ),
    "owner": Verb(
        "services.jobs.entries",
        "list the owners of registered models, or change one",
        "[MODEL OWNER] [key=value ...]",
        ("jobs",),
    ),
    "token": Verb(
        "services.jobs.entries",
        "manage the service's API tokens: list, issue, rotate, revoke",
        "[issue NAME owner=OWNER role=ROLE | rotate NAME | revoke NAME] [key=value ...]",
        ("jobs",),
    ),
    "doctor": Verb(
        "services.commands.doctor", "report what this machine offers and what is missing", "[key=value ...]", ("jobs",)
    ),
    "demo": Verb("services.commands.demo", "run everything on the built-in corpus, in minutes"),
}
TEXT_FIRST = {"translate", "generate", "embed"}  # commands that take a text on the command line
# Modules of several commands: they get the command's name.
SHARED_MODULES = {"pipelines.entries", "services.entries", "services.jobs.entries", "services.commands.query"}
