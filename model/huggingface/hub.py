"""`hf://ORG/NAME[@REVISION]`: a model's files of a hub, fetched into this machine's cache.

The hub is that of HF_ENDPOINT, else Hugging Face's own. Only configurations, safetensors and tokenizers are fetched.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.huggingface.folder import PICKLES, refusal

PATTERNS = ["*.json", "*.safetensors", "*.spm", "*.model", "README.md"]
ADDRESS = re.compile(r"hf://(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")


@dataclass(frozen=True)
class Fetched:
    """A model's local folder, and the commit that it holds."""

    folder: Path
    revision: str


def fetch(address: str, cache: Path) -> Fetched:
    """Returns the files of the model at `address`; what the cache has is not fetched again.

    Raises ServiceError: the hub does not answer.
    """
    match = ADDRESS.fullmatch(address)
    if match is None:
        raise UserError(f"{address}: must be hf://ORG/NAME or hf://ORG/NAME@REVISION")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when the library is imported
    from httpx2 import HTTPError
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

    endpoint = os.environ.get("HF_ENDPOINT")
    try:
        info = HfApi(endpoint=endpoint).model_info(match["name"], revision=match["revision"])
        files = sorted(sibling.rfilename for sibling in info.siblings or ())
        if not any(file.endswith(".safetensors") for file in files):
            for pickle in filter(PICKLES.fullmatch, files):
                raise UserError(refusal(f"{address}: {pickle}"))
        folder = snapshot_download(
            match["name"], revision=info.sha, cache_dir=cache, allow_patterns=PATTERNS, endpoint=endpoint
        )
    except GatedRepoError:
        raise UserError(f"{address}: this model asks for an agreement; accept it there and set HF_TOKEN") from None
    except RevisionNotFoundError:
        raise UserError(f"{address}: the model has no revision {match['revision']!r}") from None
    except RepositoryNotFoundError:
        raise UserError(f"{address}: no such model, or it is private (HF_TOKEN)") from None
    except (HfHubHTTPError, HTTPError, OSError) as problem:
        raise ServiceError(f"{address}: the hub does not answer ({type(problem).__name__})") from None
    return Fetched(Path(folder), str(info.sha))
