"""Reports on a sharding: the sources in the manifest and the table at the end."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.model.columns import columns
from dragoman.model.files import file_sha256
from dragoman.model.shards.manifest import Manifest
from dragoman.pipelines.corpus.plan.plan import Plan
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.corpus.sharded import WITHOUT, missing

FEW = 100  # records of a held-out split; with fewer, a BLEU has an interval of ten points and more
CHANGED = {  # changes of cleaning, of the counts in `changed`, that a user must know, for every kind of corpus
    "cut": "records are longer than corpus.clean.max_words or max_chars allow and were cut into several",
    "nul": "lines hold the character NUL, which is left out: is this a file of text?",
    "other_encoding": "lines are not in the first of corpus.encoding and were read in another",
}


def source_records(
    sources: Sequence[Source], blocks: Sequence[Block], plan: Plan, values: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Returns the manifest's entry of each corpus file.

    An entry has name, split, sha256, bytes and lines, and the changed lines by reason.
    """
    hashes = [entry.get("sha256") for entry in values["files"]]
    records = []
    lines_of: Counter[str] = Counter()
    for block in blocks:
        lines_of[block.source.name] += block.lines
    for number, source in enumerate(sources):
        expected = hashes[number] if number < len(hashes) else None
        lines = lines_of[source.name]
        for side, file in enumerate(source.files):
            records.append(
                {
                    "name": file.name,
                    "source": source.name,
                    "split": source.split,
                    "sha256": expected[side] if expected else file_sha256(file),
                    "bytes": file.stat().st_size,
                    "lines": lines,
                    "changed": plan.changed.get(source.name, {}),
                }
            )
    return records


def too_small(manifest: Manifest, split: str) -> str | None:
    """Returns the warning about a held-out split that is too small to compare models; None if it is large enough."""
    there = manifest.splits.get(split)
    if there is None or there.records >= FEW:
        return None
    what = "pairs" if manifest.kind == "parallel" else "records"
    share = FEW / max(1, sum(split_facts.records for split_facts in manifest.splits.values()))
    more = (
        f"a larger share ({_cut(min(0.3, 1.2 * share))}) or files of your own give more"
        if share < 0.3
        else "such a corpus is for trying out"
    )
    return f"warning: the {split} split has {there.records} {what}: scores on fewer than {FEW} say little; {more}"


def _cut(share: float) -> str:
    """Returns the command line words that cut both held-out splits alike."""
    return " ".join(f"corpus.cut.{split}={share:.2g}" for split in WITHOUT)


def changes(manifest: Manifest) -> list[str]:
    """Returns a warning for each kind of change in CHANGED that cleaning made to a split."""
    counts = {
        (source["split"], source["source"]): source["changed"] for source in manifest.sources
    }  # a source has several files
    totals: Counter[tuple[str, str]] = Counter()
    for (split, _), changed in counts.items():
        totals.update({(split, kind): changed.get(kind, 0) for kind in CHANGED})
    return [f"warning: {split}: {number:,} {CHANGED[kind]}" for (split, kind), number in totals.items() if number]


def table(directory: Path, manifest: Manifest, digest: str, seconds: float, with_warnings: bool) -> str:
    """Returns one line per split and one for each rule that dropped anything."""
    parallel = manifest.kind == "parallel"
    head = ("pairs", "source tokens", "target tokens") if parallel else ("records", "tokens")
    rows: list[tuple[str, ...]] = [("split", *head, "shards", "chunks")]
    for name, split in manifest.splits.items():
        chunks = sum(len(entry.chunks) for entry in split.shards)
        sides = (split.source_tokens, split.target_tokens) if parallel else (split.source_tokens,)
        numbers = (split.records, *sides, len(split.shards), chunks)
        rows.append((name, *(f"{number:,}" for number in numbers)))
    lines = columns(rows, right=True)
    for part in manifest.parts:
        counts = ", ".join(f"{split} {number:,}" for split, number in part.records.items())
        lines.append(f"{part.name} ({' '.join([part.pair, *part.tags])}): {counts}")
    for name, rules in manifest.dropped.items():
        if rules:
            lines.append(f"dropped from {name}: " + ", ".join(f"{rule} {number:,}" for rule, number in rules.items()))
    lines += [f"warning: {warning}" for warning in manifest.warnings] if with_warnings else []
    lines += changes(manifest)
    lines += [missing(manifest, name) for name in WITHOUT if name not in manifest.splits]
    lines += [warning for name in WITHOUT if (warning := too_small(manifest, name)) is not None]
    tokens = sum(split.source_tokens + split.target_tokens for split in manifest.splits.values())
    if with_warnings:
        lines.append(f"already there and complete ({seconds:.1f} s)")
    else:
        lines.append(
            f"{tokens:,} tokens in {seconds:.1f} s ({tokens / max(seconds, 1e-9) / 1e6:.2f} million per second)"
        )
    lines += [f"manifest {digest}", f"in {directory}"]
    return "\n".join(lines) + "\n"
