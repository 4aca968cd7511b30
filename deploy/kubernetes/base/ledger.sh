#!/bin/sh
# A database of its own for the ledger, and a user who may do nothing else. PostgreSQL's image runs this at its first start.
set -eu
password=$(cat "${LEDGER_SECRET:?names the file with the password of the ledger}")
psql --set=ON_ERROR_STOP=1 --set=password="$password" --username="${POSTGRES_USER:-mlflow}" --dbname="${POSTGRES_DB:-mlflow}" <<'END'
CREATE ROLE ledger LOGIN PASSWORD :'password';
CREATE DATABASE ledger OWNER ledger;
REVOKE CONNECT ON DATABASE ledger FROM PUBLIC;
END
