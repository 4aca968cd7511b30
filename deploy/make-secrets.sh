#!/bin/sh
# Make the two secrets of docker-compose.yml, once: the database's password and the token of the Ray cluster.
# They are mounted as they are, and a container's user must be able to read them: so the folder is closed, not the files.
set -eu
folder="$(dirname "$0")/secrets"
mkdir -p "$folder"
chmod 700 "$folder"
for name in postgres_password ray_token; do
    if [ ! -e "$folder/$name" ]; then
        od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$folder/$name"
        chmod 644 "$folder/$name"
        echo "made $folder/$name"
    fi
done
