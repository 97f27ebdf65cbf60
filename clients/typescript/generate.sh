#!/usr/bin/env bash
# Writes retrieval-service.ts from the API's description: generate.sh OPENAPI_JSON FOLDER, where FOLDER is for npm's packages.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
described="$(realpath "$1")"
mkdir -p "$2"
cd "$2"
[ -e package.json ] || echo '{}' >package.json
npm install --no-audit --no-fund --ignore-scripts --loglevel=error openapi-typescript@7.13.0 typescript@5.9.3 openapi-fetch@0.17.0 >&2
node_modules/.bin/openapi-typescript "$described" -o "${3:-$here/retrieval-service.ts}" \
    --default-non-nullable=false --empty-objects-unknown
