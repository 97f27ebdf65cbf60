#!/bin/sh
# Makes .venv from uv.lock. Needs Python 3.11 or newer and nothing else: the uv of local/uv.txt, checked by its hash, comes
# by pip into .uv/ unless that very version is there.
set -eu
export PIP_ROOT_USER_ACTION=ignore
cd "$(dirname "$0")/.."

fail() {
    echo "setup: $*" >&2
    exit 1
}

find_python() {
    for candidate in python3 python3.13 python3.12 python3.11 python3.14 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
}

pinned=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' local/uv.txt)

version_of() {
    "$1" --version 2>/dev/null | cut -d ' ' -f 2
}

find_uv() {
    for candidate in "$PWD/.uv/bin/uv" "$(command -v uv || true)"; do
        if [ -n "$candidate" ] && [ "$(version_of "$candidate")" = "$pinned" ]; then
            echo "$candidate"
            return
        fi
    done
    if other=$(version_of uv) && [ -n "$other" ]; then
        echo "setup: the uv on PATH is $other and is left alone: this project uses $pinned (local/uv.txt)" >&2
    fi
}

pip_install() {
    "$@" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --requirement local/uv.txt
}

install_uv() {
    echo "setup: installing uv $pinned into .uv/"
    rm -rf .uv
    if "$python" -c 'import pip' 2>/dev/null && PIP_TARGET=.uv pip_install "$python" -m pip; then
        return
    fi
    rm -rf .uv
    if "$python" -m venv .uv >/dev/null 2>&1 && pip_install .uv/bin/pip; then
        return
    fi
    rm -rf .uv
    "$python" -c 'import ensurepip' 2>/dev/null || "$python" -c 'import pip' 2>/dev/null ||
        fail "$python has neither pip nor venv. On Debian or Ubuntu: apt-get install python3-pip python3-venv"
    fail "uv could not be installed by pip: see the lines above (no network, no package index, or another hash?)."
}

python=$(find_python)
[ -n "$python" ] || fail "Python 3.11 or newer is needed and was not found on PATH. On Debian or Ubuntu: apt-get install python3"

uv=$(find_uv)
if [ -z "$uv" ]; then
    install_uv
    uv="$PWD/.uv/bin/uv"
elif [ "$uv" != "$PWD/.uv/bin/uv" ]; then
    mkdir -p .uv/bin # the guides call it by this path
    ln -sf "$uv" .uv/bin/uv
fi

echo "setup: $("$uv" --version), $("$python" --version), packages of uv.lock into .venv"
export UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv
unset VIRTUAL_ENV || true
sync() {
    if [ -x .venv/bin/python ]; then
        "$uv" sync --frozen --quiet
    else
        "$uv" sync --frozen --quiet --python "$python"
    fi
}

# A proxy that signs with a certificate of its own is known to the system, not to uv: hence the second try, whose errors
# are those to read.
sync 2>/dev/null || {
    echo "setup: trying once more, with the TLS certificates that this system trusts"
    UV_SYSTEM_CERTS=1 sync
}
