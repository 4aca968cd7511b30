"""The names of the files in a run's folder. No other module writes one of these names."""

from pathlib import Path

from dragoman.model.names import TRAINING as TRAINING

RECORD = "run.json"  # the run's settings, written when it begins
RELEASE = "release.json"  # the results of its release
TRACKED = "mlflow.json"  # its MLflow run
PRECISION = "precision.json"  # its number format, and the reason
FIRST_WEIGHTS, EMBEDDINGS = "init.safetensors", "embeddings.safetensors"
STEPS = "steps.jsonl"  # the journal
STARTS = "starts.jsonl"
ATTEMPT = "attempt"  # the number of its last start
CHECKPOINTS = "checkpoints"
WEIGHTS = "weights"  # kept for averaging
BUNDLE = "bundle"
SPOOL = "spool"  # records on their way to MLflow
LOCK = "lock"  # held by the command that trains the run
STOP, PAUSE = "stop", "pause"  # requests to the training command
SNAPSHOT, SNAPSHOT_LOCK = "snapshot.json", "snapshot.lock"  # the snapshot that the folder continues from
RAY = "ray"  # Ray Train's own files
OF_THIS_MACHINE = {LOCK, STOP, PAUSE, SNAPSHOT, SNAPSHOT_LOCK}  # files that stay on this machine


def evaluation(folder: Path, split: str) -> Path:
    return folder / f"evaluation.{split}.json"


def begun(run: Path) -> bool:
    """Returns True if the run has begun."""
    return (run / RECORD).is_file()


def is_run(folder: Path) -> bool:
    """Returns True if a run has begun in the folder, or it has records to send."""
    return begun(folder) or (folder / SPOOL).is_dir()


def hypotheses(folder: Path, split: str, language: str) -> Path:
    """Returns the file of an evaluation's translations."""
    return folder / f"hypotheses.{split}.{language}.txt"


def label_picture(folder: Path, name: str, split: str) -> Path:
    """Returns the file of a picture of an evaluation of labels, such as its confusion matrix."""
    return folder / f"{name}.{split}.png"
