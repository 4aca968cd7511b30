#!/bin/sh
# Make the secrets of docker-compose.yml, once; what is there stays. Kubernetes takes the same files (docs/deploy.md).
# They are mounted as they are, and a container's user must be able to read them: so the folder is closed, not the files.
set -eu
folder="$(dirname "$0")/secrets"
mkdir -p "$folder"
chmod 700 "$folder"
random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
make() { # NAME, its content on standard input
    cat > "$folder/$1"
    chmod 644 "$folder/$1"
    echo "made $folder/$1"
}
for name in postgres_password ledger_password ray_token jobs_admin_token jobs_metrics_token proxy_secret grafana_password; do
    [ -e "$folder/$name" ] || random | make "$name"
done
# Where alerts go; nobody listens at this address. Write that of a chat or a pager into the file.
[ -e "$folder/alert_url" ] || echo http://127.0.0.1:9/ | make alert_url
# The login of MLflow, in the file that its clients read (~/.mlflow/credentials).
if [ ! -e "$folder/mlflow_credentials" ]; then
    printf '[mlflow]\nmlflow_tracking_username = dragoman\nmlflow_tracking_password = %s\n' "$(random)" |
        make mlflow_credentials
fi
# One pair of keys, as SeaweedFS reads it and as its clients do (~/.aws/credentials).
if [ ! -e "$folder/s3_config" ] || [ ! -e "$folder/s3_credentials" ]; then
    key=$(random)
    printf '{"identities": [{"name": "dragoman", "credentials": [{"accessKey": "dragoman", "secretKey": "%s"}], ' "$key" |
        { cat; printf '"actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}\n'; } | make s3_config
    printf '[default]\naws_access_key_id = dragoman\naws_secret_access_key = %s\n' "$key" | make s3_credentials
fi
