"""Records a sharding as a run of its own: its sources, its counts, its pictures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.model.confinement import make_folder, read_grant
from dragoman.model.names import check_name
from dragoman.model.runs.spool import Spool
from dragoman.model.shards.manifest import MANIFEST, manifest_hash, read_manifest
from dragoman.pipelines.tracking import plots
from dragoman.pipelines.tracking.lineage import log_shards
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.settings import TrackingConfig


def log_sharding(run: TrackedRun, config: Mapping[str, Any], config_hash: str, shards: Path) -> None:
    """Logs a finished shard directory: a run of its own, found again by the manifest's hash."""
    manifest = log_shards(run, "shard", config, config_hash, shards)
    run.artifact(shards / MANIFEST, "shards", keep=True)
    run.table(
        ["name", "lines", "bytes", "sha256"],
        [[source.get(key) for key in ("name", "lines", "bytes", "sha256")] for source in manifest.sources],
        "shards/sources.json",
    )
    totals: dict[str, float] = {}
    for name, split in manifest.splits.items():
        totals |= {
            f"{name}/records": split.records,
            f"{name}/source_tokens": split.source_tokens,
            f"{name}/target_tokens": split.target_tokens,
            f"{name}/shards": len(split.shards),
        }
        sides = {manifest.languages[0]: split.source_lengths}
        if manifest.kind == "parallel":
            sides[manifest.languages[1]] = split.target_lengths
        run.figure(
            plots.length_histogram(manifest.length_bounds, sides, f"{manifest.corpus} {name}: sentences by length"),
            f"shards/lengths-{name}.png",
        )
    for name, rules in manifest.dropped.items():
        totals |= {f"{name}/dropped/{rule}": count for rule, count in rules.items()}
        kept = manifest.splits[name].records if name in manifest.splits else 0
        run.figure(
            plots.draw_dropped(rules, kept, f"{manifest.corpus} {name}: what was dropped"), f"shards/dropped-{name}.png"
        )
    run.metrics(0, totals)
    if manifest.warnings:
        run.text("\n".join(manifest.warnings) + "\n", "shards/warnings.txt")
    for source in manifest.sources:
        run.dataset(str(source.get("name")), str(source.get("sha256")), source, context="source")


def record_sharding(
    tracking: TrackingConfig, runs: Path, config: Mapping[str, Any], config_hash: str, shards: Path
) -> None:
    """Records a sharding as a run named after the manifest's hash: the same shards are recorded once."""
    corpus = check_name(f"{shards / MANIFEST}: corpus", read_manifest(shards).corpus)
    name = f"shard-{corpus}-{manifest_hash(shards)[:12]}"
    try:
        if any(record.fields.get("status") == "FINISHED" for record in Spool(runs / name).records()):
            return
    except PermissionError:
        if read_grant() is None:
            raise
        return  # it belongs to another owner of the job service, who made the same shards
    make_folder(runs / name)
    with TrackedRun(tracking, runs / name, name, system=False) as run:
        log_sharding(run, config, config_hash, shards)
