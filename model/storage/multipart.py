"""S3's multipart upload for large objects: each part is retried by itself, then all parts are joined.

A broken connection so costs one part and not the file. Joining takes a server some seconds per gigabyte. If its answer
is lost or late, the next request finds no upload; the object at the address then shows whether it is ours.
"""

import contextlib
import hashlib
from pathlib import Path
from typing import Any, BinaryIO

from dragoman.model.storage.retry import BrokenTransferError, Patience, retry

PART = 32 << 20  # bytes; S3 requires at least 5 MiB for all parts but the last
MOST_PARTS = 10_000  # S3's limit


def upload_multipart(files: Any, path: Path, address: str, patience: Patience) -> None:
    """Uploads the file to an address of S3, through the file system `files` (s3fs)."""
    bucket, key, _ = files.split_path(address)
    where = {"Bucket": bucket, "Key": key}
    begun = retry(lambda: files.call_s3("create_multipart_upload", **where), address, patience)
    where["UploadId"] = begun["UploadId"]
    size = path.stat().st_size
    part = max(PART, -(-size // MOST_PARTS))
    try:
        with path.open("rb") as file:
            tags = [
                _send(files, file, part, address, patience, {**where, "PartNumber": number})
                for number in range(1, -(-size // part) + 1)
            ]
        retry(lambda: _join(files, address, where, tags), address, patience)
    except BaseException:
        with contextlib.suppress(Exception):  # the first error matters more
            files.call_s3("abort_multipart_upload", **where)
        raise


def _send(files: Any, file: BinaryIO, size: int, address: str, patience: Patience, where: dict[str, Any]) -> str:
    """Uploads the next part of `file` and returns its tag; botocore makes the server check its bytes."""
    body = file.read(size)
    return str(retry(lambda: files.call_s3("upload_part", Body=body, **where)["ETag"], address, patience))


def _join(files: Any, address: str, where: dict[str, Any], tags: list[str]) -> None:
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
    try:
        files.call_s3("complete_multipart_upload", MultipartUpload={"Parts": parts}, **where)
    except FileNotFoundError as gone:  # no such upload: an earlier request joined it, or is joining it now
        etag = ""
        with contextlib.suppress(FileNotFoundError):
            etag = str(files.info(address)["ETag"]).strip('"')
        if not etag or etag != _joined_tag(tags):
            raise BrokenTransferError("the upload is gone, and the object there is not what was sent") from gone


def _joined_tag(tags: list[str]) -> str:
    """Returns the tag that S3 gives an object of parts with these tags; empty if they are no hashes (encryption)."""
    try:
        digests = b"".join(bytes.fromhex(tag.strip('"')) for tag in tags)
    except ValueError:
        return ""
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(tags)}"
