#!/bin/sh
# The tracking server over PostgreSQL. The password comes from a file, and goes neither onto a command line nor into
# the image; the address with it is read by MLflow from the environment of this one process.
set -eu
password=$(cat "${POSTGRES_PASSWORD_FILE:?names the file that holds the password of the database}")
MLFLOW_BACKEND_STORE_URI="postgresql://${POSTGRES_USER:-mlflow}:${password}@${POSTGRES_HOST:-postgres}:5432/${POSTGRES_DB:-mlflow}"
export MLFLOW_BACKEND_STORE_URI
export MLFLOW_DISABLE_TELEMETRY=true
exec mlflow server \
    --host 0.0.0.0 --port 5000 --workers "${MLFLOW_WORKERS:-2}" \
    --allowed-hosts "${MLFLOW_ALLOWED_HOSTS:-mlflow:5000,localhost:5000,127.0.0.1:5000}" \
    --serve-artifacts --artifacts-destination "${DRAGOMAN_HOME:-/data}/mlflow/artifacts"
