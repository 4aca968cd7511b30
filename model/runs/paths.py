"""The files of a run's folder by name. No other file of the project spells one of these names."""

from pathlib import Path

RECORD = "run.json"  # what the run is made of, written when it begins
RELEASE = "release.json"  # what it was released as
TRACKED = "mlflow.json"  # its MLflow run
PRECISION = "precision.json"  # what it trains in, and why
FIRST_WEIGHTS, TAUGHT, EMBEDDINGS = "init.safetensors", "taught.safetensors", "embeddings.safetensors"
BEGINNING = (PRECISION, FIRST_WEIGHTS, TAUGHT, EMBEDDINGS)  # what the first step depends on beside RECORD
PACE = "pace.json"  # how long it needs to stop
STEPS = "steps.jsonl"  # the journal
STARTS = "starts.jsonl"
EVALUATIONS = "evaluations.jsonl"
OPENINGS = "openings.jsonl"  # of held-out sets
ATTEMPT = "attempt"  # the number of its last start
CHECKPOINTS = "checkpoints"
WEIGHTS = "weights"  # kept for averaging
BUNDLE = "bundle"
SPOOL = "spool"  # records on their way to MLflow
LOCK = "lock"  # held by the command that trains the run
STOP, PAUSE = "stop", "pause"  # requests to whoever trains it
BEHIND = "behind"  # newer files of the run are elsewhere, and are about to be fetched
SNAPSHOT, SNAPSHOT_LOCK = "snapshot.json", "snapshot.lock"  # which snapshot the folder goes on from
RAY = "ray"  # Ray Train's own files
OF_THIS_MACHINE = {LOCK, STOP, PAUSE, PACE, SNAPSHOT, SNAPSHOT_LOCK}  # files that do not travel with the run


def evaluation(folder: Path, split: str) -> Path:
    """Return the file of the evaluation on `split`."""
    return folder / f"evaluation.{split}.json"


def evaluations(run: Path) -> list[Path]:
    """Return the evaluations in a run's folder."""
    return sorted(run.glob("evaluation.*.json"))


def begun(run: Path) -> bool:
    """Return True if the run has begun."""
    return (run / RECORD).is_file()


def is_run(folder: Path) -> bool:
    """Return True if a run has begun in the folder, or has at least records to send."""
    return begun(folder) or (folder / SPOOL).is_dir()


def hypotheses(folder: Path, split: str, language: str) -> Path:
    """Return the file of the translations that an evaluation is of."""
    return folder / f"hypotheses.{split}.{language}.txt"
