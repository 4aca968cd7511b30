#!/usr/bin/env python3
"""make-bucket NAME: the bucket on the S3 that the environment names, unless it is there."""

import sys

import boto3
from botocore.exceptions import ClientError

(name,) = sys.argv[1:]
try:
    boto3.client("s3").create_bucket(Bucket=name)
    print(f"made {name}")
except ClientError as problem:
    if problem.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
        raise SystemExit(f"{name}: {problem}") from None
    print(f"{name} is there")
