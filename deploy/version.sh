#!/bin/sh
# Sets the version of service, client, chart, badge and lock file: deploy/version.sh 0.3.0, or 0.4.0.dev0 after a release.
set -eu
cd "$(dirname "$0")/.."
version=${1:?name the version, such as 0.3.0}
echo "$version" | grep -qE '^[0-9]+\.[0-9]+\.[0-9]+(\.dev[0-9]+)?$' || { echo "version: $version is not a version" >&2; exit 2; }
# Helm takes semantic versions.
chart=$(echo "$version" | sed 's/\.dev/-dev./')
sed -i "s/^version = .*/version = \"$version\"/" pyproject.toml clients/python/pyproject.toml
sed -i -E "s/^(version|appVersion): .*/\1: $chart/" deploy/helm/retrieval/Chart.yaml
sed -i -E "s/(version: |>)[0-9]+\.[0-9]+\.[0-9]+(\.dev[0-9]+)?(\"|<)/\1$version\3/" docs/pictures/badge-version.svg
.uv/bin/uv lock --quiet
