#!/bin/sh
# Copies a home while its services run: deploy/backup.sh HOME FOLDER. Needs sqlite3; pg_dump where a database is a server's.
#
# Databases come first, so that the files that they name are on the disk when the files are copied. DATABASES names
# those of servers: DATABASES="postgresql://ledger@HOST/ledger postgresql://mlflow@HOST/mlflow".
# With RESTIC_REPOSITORY the files go to restic, which keeps earlier days; else to FOLDER/files.tar.
set -eu
home=${1:?names the home}
folder=${2:?names a folder outside of the home}
umask 077 # the copy holds the secrets of the home
mkdir -p "$folder"
rm -rf "$folder/databases.new"
mkdir "$folder/databases.new"

(cd "$home" && find . -type f -name '*.db') | while IFS= read -r path; do
    mkdir -p "$folder/databases.new/$(dirname "$path")"
    sqlite3 -cmd '.timeout 60000' "$home/$path" ".backup '$folder/databases.new/$path'"
done
for url in ${DATABASES:-}; do
    name=${url%%\?*}
    dump="$folder/databases.new/${name##*/}.dump"
    [ ! -e "$dump" ] || { echo "DATABASES: two are called ${name##*/}: back them up to two folders" >&2; exit 1; }
    pg_dump --format=custom --file="$dump" "$url"
done
rm -rf "$folder/databases"
mv "$folder/databases.new" "$folder/databases"

if [ -n "${RESTIC_REPOSITORY:-}" ]; then
    restic backup --exclude='*.db' --exclude='*.db-*' "$home" "$folder/databases"
    exit
fi
tar --create --file="$folder/files.tar.new" --directory="$home" --exclude='*.db' --exclude='*.db-*' \
    --exclude='.part-*' . || [ $? -eq 1 ] # 1: a file changed or went while it was read, as logs and old checkpoints do
mv "$folder/files.tar.new" "$folder/files.tar"
