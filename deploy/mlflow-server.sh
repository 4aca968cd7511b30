#!/bin/sh
# The tracking server over PostgreSQL, behind a login. The passwords come from files, and go neither onto a command line
# nor into the image; MLflow reads them from the environment of this one process and from a file that only it can read.
set -eu
password=$(cat "${POSTGRES_PASSWORD_FILE:?names the file that holds the password of the database}")
# The driver is named: which one "postgresql:" means is another with another SQLAlchemy.
MLFLOW_BACKEND_STORE_URI="postgresql+psycopg://${POSTGRES_USER:-mlflow}:${password}@${POSTGRES_HOST:-postgres}:${POSTGRES_PORT:-5432}/${POSTGRES_DB:-mlflow}"
export MLFLOW_BACKEND_STORE_URI
export MLFLOW_DISABLE_TELEMETRY=true
export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false # evaluations of its own, which nothing here asks for: processes less
export MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD=true # else large bundles go through a worker in one piece, and time out

# The login: the same file that its clients read. MLflow has no default password, and makes this user at its first start.
credential() { sed -nE "s/^mlflow_tracking_$1[[:space:]]*=[[:space:]]*([^[:space:]]+)[[:space:]]*$/\1/p" "$credentials"; }
credentials=${MLFLOW_CREDENTIALS_FILE:?names the file that holds the login}
MLFLOW_AUTH_ADMIN_USERNAME=$(credential username)
MLFLOW_AUTH_ADMIN_PASSWORD=$(credential password)
MLFLOW_FLASK_SERVER_SECRET_KEY=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n') # for forms, until the next start
MLFLOW_AUTH_CONFIG_PATH=$(mktemp)
export MLFLOW_AUTH_ADMIN_USERNAME MLFLOW_AUTH_ADMIN_PASSWORD MLFLOW_FLASK_SERVER_SECRET_KEY MLFLOW_AUTH_CONFIG_PATH
# A password is hashed slowly on purpose, and a registration is more than a hundred requests: each worker remembers for a
# minute whom it has let in.
cat > "$MLFLOW_AUTH_CONFIG_PATH" <<END
[mlflow]
default_permission = READ
auth_cache_ttl_seconds = 60
database_uri = $MLFLOW_BACKEND_STORE_URI
END

# The names by which it may be asked: its own, this machine's, and the address that people open, which is also the one
# origin whose pages may change something.
public=$(printf %s "${DRAGOMAN_TRACKING_URL:-http://localhost:5000}" | sed -E 's#^([a-z]+://[^/]+).*#\1#')

exec mlflow server --app-name basic-auth \
    --host 0.0.0.0 --port "${MLFLOW_PORT:-5000}" --workers "${MLFLOW_WORKERS:-2}" \
    --allowed-hosts "${MLFLOW_ALLOWED_HOSTS:-mlflow:5000,mlflow.*.svc:5000,localhost:*,127.0.0.1:*},${public#*://}" \
    --cors-allowed-origins "$public" \
    --serve-artifacts --artifacts-destination "${MLFLOW_ARTIFACTS:-${DRAGOMAN_HOME:-/data}/mlflow/artifacts}"
