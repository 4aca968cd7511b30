#!/bin/sh
# Pin the public images by digest: what docker-compose.yml names as ${NAME_IMAGE:-repository:tag} is looked up in the
# registry, and .env, which docker compose reads by itself, says NAME_IMAGE=repository:tag@sha256:... from then on.
# Other lines of .env stay. Run it again for newer builds of the same tags.
set -eu
cd "$(dirname "$0")/.."
pins=$(mktemp)
trap 'rm -f "$pins"' EXIT
grep -oE '\$\{[A-Z]+_IMAGE:-[^}]+\}' docker-compose.yml | sort -u | tr -d '${}' | while IFS= read -r named; do
    image=${named#*:-}
    digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image" < /dev/null)
    expr "$digest" : 'sha256:[0-9a-f]\{64\}$' > /dev/null || { echo "$image: no digest but '$digest'" >&2; exit 1; }
    echo "${named%%:-*}=$image@$digest"
done > "$pins"
if [ -e .env ]; then
    grep -vE '^[A-Z]+_IMAGE=' .env >> "$pins" || true
fi
cat "$pins" > .env
cat .env
