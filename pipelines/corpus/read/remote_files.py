"""Corpus files at an address: downloads them into this machine's cache, and again if they changed."""

import hashlib
import logging
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from dragoman.model.addresses import mask_address
from dragoman.model.errors import UserError
from dragoman.model.files import PART, atomic_write, exclusive
from dragoman.model.storage import remote
from dragoman.model.storage.places import is_address, join, local_path
from dragoman.pipelines.corpus.read.file_names import SPLITS, fill_pattern, names_of
from dragoman.pipelines.corpus.settings import CorpusConfig, SplitFiles

logger = logging.getLogger(__name__)


def with_local_files(config: CorpusConfig, pair: str, cache: str) -> CorpusConfig:
    """Returns the same corpus with local copies of all files named by an address or below a remote `corpus.root`.

    Raises AwayError: the server does not answer.
    """
    below = config.root if config.root and is_address(config.root) else None
    splits = {split: getattr(config, split) for split in SPLITS}
    named = [name for files in splits.values() for key in vars(files) for name in names_of(getattr(files, key))]
    if below is None and not any("://" in name or name.startswith("pipe:") for name in named):
        return config
    folder = Path(cache).expanduser().absolute() / "sources"

    def here(name: str, key: str) -> str:
        address = fill_pattern(config, pair, name)
        address = address if below is None or "://" in address else join(below, address)
        if not is_address(address):
            return str(local_path(address)) if address.startswith("file://") else name
        if any(mark in urlsplit(address).path for mark in "*[?"):
            raise UserError(f"{key}: {mask_address(address)}: a pattern cannot be an address; name each file")
        return str(_fetch(address, folder))

    local: dict[str, Any] = {
        split: SplitFiles(
            **{
                key: [here(name, f"corpus.{split}.{key}") for name in names_of(getattr(files, key))]
                for key in vars(files)
            }
        )
        for split, files in splits.items()
    }
    return replace(config, root=None if below else config.root, needs_root=config.needs_root and not below, **local)


def _fetch(address: str, folder: Path) -> Path:
    """Returns the file's local path, under its remote name; downloads it unless the server says it is unchanged."""
    own = folder / hashlib.sha256(address.encode()).hexdigest()[:16]
    path = own / (PurePosixPath(urlsplit(address).path).name or "file")
    with exclusive(own / "lock", wait=True):
        version = remote.version(address)
        note = own / "version"
        if path.is_file() and version and note.is_file() and note.read_text(encoding="utf-8") == version:
            return path
        logger.info(f"fetching {mask_address(address)}")
        part = path.with_name(f"{PART}{path.name}")
        remote.download_unchecked(address, part)
        if version != remote.version(address):
            raise UserError(f"{mask_address(address)}: was changed while it was fetched; start again")
        part.replace(path)
        atomic_write(note, version)
    return path
