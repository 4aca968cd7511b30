#!/bin/sh
# The locked versions against the open list of known vulnerabilities (OSV). One that is known fails, unless it stands with
# a reason in deploy/audit-accepted. Where the list cannot be had, off the network, that is said and nothing fails.
set -eu
cd "$(dirname "$0")/.."
accepted=$(sed -nE 's/^([A-Za-z0-9-]+)[[:space:]]+[^[:space:]].*/--ignore-vuln \1/p' deploy/audit-accepted)
said=$(mktemp)
trap 'rm -f "$said"' EXIT
# shellcheck disable=SC2086 # one word an option
if pip-audit --vulnerability-service osv --progress-spinner off --no-deps --disable-pip $accepted \
    --requirement requirements.lock --requirement requirements-dev.lock 2> "$said"; then
    cat "$said" >&2
elif grep -qE 'ConnectionError|ProxyError|Timeout|ServiceError|Could not connect' "$said"; then
    echo "The locked versions were not audited: the list of known vulnerabilities cannot be reached from here."
else
    cat "$said" >&2
    exit 1
fi
