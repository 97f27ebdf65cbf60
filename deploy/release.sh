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

# The tag's own commit may be built again; everything else needs a version that was not released.
if git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null &&
    [ "$(git rev-parse "v$version^{commit}")" != "$(git rev-parse HEAD)" ]; then
    echo "release: v$version is a tag of another commit: raise \`version\` in pyproject.toml" >&2
    exit 1
fi
if grep -qF "## [$version] - " CHANGELOG.md && grep -q '^## \[Unreleased\]' CHANGELOG.md; then
    echo "release: CHANGELOG.md has a section of $version and another of what is not released:" \
        "raise \`version\` in pyproject.toml" >&2
    exit 1
fi

# The section of what is not released becomes this version's. A development version keeps it.
case $version in
*.dev*) section="## [Unreleased]" ;;
*)
    section="## [$version] "
    sed -i -E "s/^## \[Unreleased\]\$/## [$version] - $(date -u +%F)/" CHANGELOG.md
    ;;
esac
rm -rf dist
mkdir dist
awk -v head="$section" 'index($0, head) == 1 {on = 1; next} on && /^## / {exit} on' CHANGELOG.md >dist/notes.md
[ -s dist/notes.md ] || { echo "release: CHANGELOG.md has no section $section" >&2; exit 1; }

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
