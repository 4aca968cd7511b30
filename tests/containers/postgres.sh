#!/bin/sh
# What the entry of PostgreSQL's image does with the variables that we give it.
set -eu
data=${PGDATA:-/var/lib/postgresql/data}
if [ ! -s "$data/PG_VERSION" ]; then
    initdb --pgdata="$data" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" \
        --encoding=UTF8 --locale=C.UTF-8 --auth-local=trust --auth-host=scram-sha-256
    echo 'host all all all scram-sha-256' >> "$data/pg_hba.conf"
    pg_ctl --pgdata="$data" --options="-c listen_addresses=''" --wait start
    psql --username="$POSTGRES_USER" --dbname=postgres --command="CREATE DATABASE $POSTGRES_DB"
    for script in /docker-entrypoint-initdb.d/*.sh; do
        "$script"
    done
    pg_ctl --pgdata="$data" --mode=fast --wait stop
fi
exec postgres -D "$data" -c listen_addresses='*' "$@"
