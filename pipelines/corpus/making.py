"""The common part of sharding every corpus: unpacking, cleaning, the tokenizer, the shards, the manifest."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.conf.compose import fingerprint
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open, file_sha256
from dragoman.model.languages import split_pair
from dragoman.model.runs.paths import TRAINING
from dragoman.model.shards.manifest import LABELS, Manifest, MixedPart, ShardsConfig, Split
from dragoman.model.storage.mirror import remote_of
from dragoman.model.text.hashed_texts import read_hashes, write_hashes
from dragoman.model.text.text_keys import Keys
from dragoman.model.text.tokenizer import TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.cluster.map import all_of, here, workers
from dragoman.pipelines.corpus.clean.block import load_keys, load_near_keys
from dragoman.pipelines.corpus.clean.task import CleaningTask, clean_block
from dragoman.pipelines.corpus.pack.packing import kept_texts, pack_shard, shard_tasks
from dragoman.pipelines.corpus.pack.report import source_records
from dragoman.pipelines.corpus.plan.plan import Plan, code, load_codes
from dragoman.pipelines.corpus.read.file_names import SPLITS
from dragoman.pipelines.corpus.read.given_tokenizer import GivenTokenizer
from dragoman.pipelines.corpus.read.parts import Part
from dragoman.pipelines.corpus.read.records import encodings_of
from dragoman.pipelines.corpus.read.scratch import FOLDER, read_json, write_json
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.read.staging import Block, blocks_of, stage, staging_tasks
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig
from dragoman.pipelines.settings import ClusterConfig

LEVEL = 6  # of zstd
LINE_BYTES = 100  # assumed size of a text's line, to decide whether starting Ray pays


def write_text(
    directory: Path, clean: Path, plan: Plan, split: str, sides: Sequence[str], pack: bool = False
) -> dict[str, dict[str, Any]]:
    """Writes a split as `{split}.{side}.txt`, one record per line in the shards' order: side -> {file, sha256, lines}.

    `pack`: as one zstd frame each, `.txt.zst`; subword regularisation reads that of training.
    """
    paths = [directory / f"{split}.{side}.txt{'.zst' if pack else ''}" for side in sides]
    with contextlib.ExitStack() as stack:
        files: list[Any] = [stack.enter_context(atomic_open(path, durable=False)) for path in paths]
        if pack:
            import zstandard

            compressors = [zstandard.ZstdCompressor(level=LEVEL, write_checksum=True) for _ in paths]
            files = [
                stack.enter_context(compressor.stream_writer(file, closefd=False))
                for compressor, file in zip(compressors, files, strict=True)
            ]
        for texts in kept_texts(clean, plan, split):
            for file, lines in zip(files, texts, strict=True):
                file.write("".join(f"{line}\n" for line in lines).encode())
    return {
        side: {"file": path.name, "sha256": file_sha256(path), "lines": plan.records(split)}
        for side, path in zip(sides, paths, strict=True)
    }


def write_training_texts(
    directory: Path, clean: Path, plan: Plan, sides: Sequence[str], ancestors: Iterable[Keys] = ()
) -> dict[str, str]:
    """Writes the hashes of the training texts with those of `ancestors`: {file, sha256}. Of one language only texts
    that are long enough to prove a leak: "Why?" recurs in every split."""
    count, every = len(sides) - (LABELS in sides), len(sides) > 1  # labels are no sentences

    def kept(block: int) -> Keys:
        taken = every | (load_keys(clean, block)[0] != 0)
        return load_near_keys(clean, block, count)[:, taken & (load_codes(plan.folder, block) == code("train"))].ravel()

    own = map(kept, np.flatnonzero(plan.kept["train"]).tolist())
    write_hashes(directory / TRAINING, chain(own, ancestors))
    return {"file": TRAINING, "sha256": file_sha256(directory / TRAINING)}


@dataclass(frozen=True)
class Sharding:
    """One sharding: its settings, its folder, its input, and what identifies its result."""

    directory: Path
    corpus: CorpusConfig  # as all sections with the values that the input settles
    tokenizer: TokenizerConfig
    shards: ShardsConfig
    cluster: ClusterConfig
    seed: int
    languages: tuple[str, ...]
    sources: list[Source]
    values: dict[str, Any]  # which `config_hash` covers
    parts: tuple[Part, ...] = ()  # of a mix
    given: GivenTokenizer | None = None  # the tokenizer of `tokenizer.same_as`
    doubts: Sequence[str] = ()  # about the corpus

    @property
    def scratch(self) -> Path:
        """Returns the folder of intermediate files."""
        return self.directory / FOLDER

    @cached_property
    def config_hash(self) -> str:
        return fingerprint(self.values)

    @contextlib.contextmanager
    def staged(self) -> Iterator[tuple[list[Block], ClusterConfig]]:
        """Unpacks and indexes the files; yields their blocks, and where tasks on them run within the block.

        All tasks read this machine's scratch folder: with shards in a bucket they run on this machine alone.
        """
        all_of("reading files", stage, staging_tasks(self.sources, self.scratch), here())
        blocks = blocks_of(self.sources, self.scratch)
        lines = sum(block.lines for block in blocks)
        if self.corpus.format == "text":  # whose lines have any length
            lines = sum(stop - start for block in blocks for start, stop in block.ranges) // LINE_BYTES
        shared = remote_of(self.directory) is None
        with workers(self.cluster if shared else replace(self.cluster, address=None), lines) as cluster:
            yield blocks, cluster

    def clean(self, blocks: Sequence[Block], cluster: ClusterConfig, rules: CleanConfig, near: bool = False) -> Path:
        """Cleans the blocks; returns the folder of clean blocks. `near`: also hash both sides for the leak guard."""
        folder = self.scratch / "clean"
        folder.mkdir(exist_ok=True)
        encodings = encodings_of(self.corpus)
        pairs = {part.name: split_pair(part.pair) for part in self.parts}
        settings = (rules, self.corpus.on_error, folder, encodings, near)
        tasks = [CleaningTask(block, *settings, pairs.get(block.source.part, self.languages)) for block in blocks]
        all_of("cleaning", clean_block, tasks, cluster)
        return folder

    def _tokenizer_once(self, make: Callable[[], TokenizerPair]) -> dict[str, Any]:
        """Returns the description of the corpus' tokenizers; makes and stores them unless that was done before."""
        path = self.scratch / "tokenizer.json"
        record = read_json(path)
        if record is not None:
            with contextlib.suppress(UserError):  # a file is missing or broken: make it again
                return load_pair(self.directory, record).describe()
        pair = make()
        pair.save(self.directory)
        write_json(path, pair.describe())
        return pair.describe()

    def pack(
        self,
        blocks: Sequence[Block],
        clean: Path,
        plan: Plan,
        cluster: ClusterConfig,
        make: Callable[[], TokenizerPair],
        sizes: ShardsConfig | None = None,
        **facts: Any,
    ) -> Manifest:
        """Writes the tokenizers, the shards and the texts; returns the manifest with further `facts`."""
        record, sizes = self._tokenizer_once(make), sizes or self.shards
        splits = [split for split in SPLITS if plan.records(split)]
        where = (self.directory, clean, plan)
        shards = [task for split in splits for task in shard_tasks(*where, split, record, sizes, self.config_hash)]
        entries = all_of("writing shards", pack_shard, shards, cluster)
        sides = (*self.languages, LABELS) if self.corpus.format == "labelled" else self.languages
        texts: dict[str, Any] = {split: write_text(*where, split, sides) for split in splits if split != "train"}
        hashed = write_training_texts(*where, sides, self._ancestors())
        if self.shards.keep_text:
            texts["train"] = write_text(*where, "train", sides, pack=True)
        return Manifest(
            corpus=self.corpus.name,
            languages=list(self.languages),
            tokenizer=record,
            dtype=shards[0].dtype,  # type: ignore[arg-type]  # one of the two that the manifest allows
            splits={split: Split.of(e for e in entries if e.name.startswith(f"{split}-")) for split in splits},
            seed=self.seed,
            normalisation=self.corpus.clean.form,
            config_hash=self.config_hash,
            config=self.values,
            sources=source_records(self.sources, blocks, plan, self.values),
            dropped=plan.dropped,
            texts=texts,
            training_texts=hashed,
            parts=[MixedPart(**part.facts(), records=plan.records_of(part.name)) for part in self.parts],
            **facts,
        )

    def _ancestors(self) -> Iterator[Keys]:
        """Yields the texts behind the given tokenizer, and behind training files that a model wrote (`synthesize`)."""
        folders = {file.parent for source in self.sources if source.split == "train" for file in source.files}
        if self.given is not None:
            folders.add(self.given.folder)
        yield from (read_hashes(folder / TRAINING) for folder in sorted(folders) if (folder / TRAINING).is_file())


def check_kept(plan: Plan, what: str, without: str) -> None:
    """Raises UserError if no record is left for training: `what`, then the drops by rule, or `without`."""
    if not plan.records("train"):
        dropped = plan.dropped.get("train", {})
        rules = ", ".join(f"{rule} {number:,}" for rule, number in dropped.items()) or without
        alike = dropped.get("leaked_near", 0) > sum(dropped.values()) / 2
        mend = "; they differ from held-out ones by numbers and marks alone, which corpus.leaks=source allows"
        raise UserError(f"{what}; dropped: {rules}{mend if alike else ''}")
