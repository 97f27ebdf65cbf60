#!/bin/sh
# Makes a release of the version in pyproject.toml in dist/: wheel and sdist of the service and of the client, the chart, the
# images, the notes and the checksums; dates the version in CHANGELOG.md. Commits, tags and publishes nothing: it prints how.
# `make release`. IMAGES=no leaves the images out; else docker builds them, or buildah as root (deploy/image.sh).
set -eu
cd "$(dirname "$0")/.."
uv=.uv/bin/uv
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# The section of what is not released becomes this version's; a version that is cut stays as it is.
sed -i -E "s/^## \[(Unreleased|$version)\]( - unreleased)?\$/## [$version] - $(date -u +%F)/" CHANGELOG.md
rm -rf dist
mkdir dist
awk -v head="## [$version] " 'index($0, head) == 1 {on = 1; next} on && /^## / {exit} on' CHANGELOG.md >dist/notes.md
[ -s dist/notes.md ] || { echo "release: CHANGELOG.md has no section of $version" >&2; exit 1; }

build() { # FOLDER; once more with the certificates that this system trusts, as the set-up does
    "$uv" build --quiet --out-dir dist "$1" || UV_SYSTEM_CERTS=1 "$uv" build --quiet --out-dir dist "$1"
}
build .
build clients/python
rm -f dist/.gitignore
tar --create --gzip --file "dist/retrieval-chart-$version.tgz" --directory deploy/helm --sort=name --owner=0 --group=0 \
    --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" retrieval

if [ "${IMAGES:-yes}" = no ]; then
    echo "release: without images, as IMAGES=no says"
elif docker info >/dev/null 2>&1; then
    for target in service app; do
        name=retrieval$([ $target = service ] || echo -app)
        docker build --quiet --target $target --tag "$name:$version" .
    done
elif command -v buildah >/dev/null && [ "$(id -u)" = 0 ]; then
    deploy/image.sh
    for name in retrieval retrieval-app; do
        ${BUILDAH:-buildah --storage-driver vfs} tag "localhost/$name" "localhost/$name:$version"
    done
else
    echo "release: without images: neither docker answers nor is buildah here for root" >&2
fi

(cd dist && sha256sum ./*.whl ./*.tar.gz ./*.tgz >SHA256SUMS)
ls -l dist
cat <<EOF
release: $version is in dist/. Then:
  git commit -m "Release $version" CHANGELOG.md    # if its date is new
  git tag -a v$version -m "Release $version"
  git push origin v$version                        # .github/workflows/release.yml publishes it
EOF
