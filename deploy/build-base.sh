#!/bin/sh
# A base image of Debian with Python, for building where no registry is reachable. As root, on Debian:
#
#   apt-get install buildah debootstrap
#   deploy/build-base.sh localhost/retrieval-base
#
# SUITE (bookworm), MIRROR (http://deb.debian.org/debian) and BUILDAH (buildah --storage-driver vfs) may be set.
set -eu
image=${1:-localhost/retrieval-base}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
buildah=${BUILDAH:-buildah --storage-driver vfs}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debootstrap --variant=minbase --include=ca-certificates,python3 "$suite" "$work/root" "$mirror" >"$work/log" 2>&1 || {
    tail -5 "$work/log" >&2
    exit 1
}
# As the official slim images: neither documentation nor what apt can fetch again.
rm -rf "$work"/root/var/lib/apt/lists/* "$work"/root/var/cache/apt/*.bin "$work"/root/var/cache/apt/archives/*.deb \
    "$work"/root/usr/share/doc "$work"/root/usr/share/man "$work"/root/usr/share/info "$work"/root/usr/share/locale \
    "$work"/root/var/log/*.log
# Devices belong to who runs a container, and a build without privileges could not unpack them.
rm -rf "$work"/root/dev && mkdir "$work/root/dev"

container=$($buildah from scratch)
$buildah add --quiet "$container" "$work/root" / >/dev/null
$buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --env LANG=C.UTF-8 "$container"
$buildah commit --quiet --rm "$container" "$image" >/dev/null
echo "base: $image, $(du -sm --apparent-size "$work/root" | cut -f1) MB"
