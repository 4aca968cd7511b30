#!/bin/sh
# Make the secrets of docker-compose.yml, once: the database's password, the token of the Ray cluster and the login of
# MLflow, in the file that MLflow's clients read (~/.mlflow/credentials).
# They are mounted as they are, and a container's user must be able to read them: so the folder is closed, not the files.
set -eu
folder="$(dirname "$0")/secrets"
mkdir -p "$folder"
chmod 700 "$folder"
random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
for name in postgres_password ray_token mlflow_credentials; do
    if [ ! -e "$folder/$name" ]; then
        case $name in
            mlflow_credentials)
                printf '[mlflow]\nmlflow_tracking_username = dragoman\nmlflow_tracking_password = %s\n' "$(random)" ;;
            *) random ;;
        esac > "$folder/$name"
        chmod 644 "$folder/$name"
        echo "made $folder/$name"
    fi
done
