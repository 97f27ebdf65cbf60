#!/bin/sh
# Builds the images by buildah and runs the demo in the service's, as it will run: user 10001, the root file system
# read-only but for /var/lib/retrieval and /tmp, no capability. As root, on a machine without Docker. `make image`.
#
# BASE may name another image with Python; without it, deploy/build-base.sh makes one from Debian's packages.
# BUILDAH (buildah --storage-driver vfs), OPENVINO (no), TESSERACT_LANGS (eng osd) and DEMO (yes) may be set.
set -eu
cd "$(dirname "$0")/.."
export BUILDAH="${BUILDAH:-buildah --storage-driver vfs}"
if [ -z "${BASE:-}" ]; then
    BASE=localhost/retrieval-base
    $BUILDAH inspect --type image "$BASE" >/dev/null 2>&1 || deploy/build-base.sh "$BASE"
fi

build() { # TARGET TAG
    # The certificates that this machine trusts, for a build behind a proxy that signs with its own; the image keeps none.
    $BUILDAH bud --quiet --format docker --isolation chroot --layers=false --volume /etc/ssl/certs:/etc/ssl/certs:ro \
        --build-arg "BASE=$BASE" --build-arg "OPENVINO=${OPENVINO:-no}" \
        --build-arg "TESSERACT_LANGS=${TESSERACT_LANGS-eng osd}" --target "$1" --tag "$2" . >/dev/null
    echo "image: $2, $($BUILDAH images --format '{{.Size}}' "$2")"
}
build service localhost/retrieval
[ "${DEMO:-yes}" = yes ] || exit 0
build app localhost/retrieval-app

container=$($BUILDAH from --pull-never localhost/retrieval)
root=$($BUILDAH mount "$container")
trap '$BUILDAH rm "$container" >/dev/null' EXIT
export root
# buildah cannot make the root read-only without a container runtime; the kernel can.
unshare --mount --pid --fork --kill-child sh -eu -c '
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=0755 dev "$root/dev"
    for name in null zero full random urandom; do touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
    mkdir "$root/dev/shm" && mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
    mount -t tmpfs -o mode=1777 tmp "$root/tmp"
    mount -t tmpfs -o mode=0700,uid=10001,gid=10001 home "$root/var/lib/retrieval"
    mount -o remount,bind,ro "$root"
    ip link set lo up 2>/dev/null || true
    exec env -i PATH=/opt/retrieval/.venv/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/var/lib/retrieval \
        RETRIEVAL_HOME=/var/lib/retrieval PYTHONDONTWRITEBYTECODE=1 DO_NOT_TRACK=1 LANG=C.UTF-8 \
        chroot --userspec=10001:10001 --groups= "$root" setpriv --no-new-privs --inh-caps=-all sh -eu -c "
            cd /opt/retrieval
            echo \"demo: as \$(id -u), \$(grep NoNewPrivs /proc/self/status)\"
            if touch /opt/retrieval/written 2>/dev/null; then echo \"the root file system can be written to\"; exit 1; fi
            exec retrieval demo"'
