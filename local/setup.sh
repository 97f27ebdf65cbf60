#!/bin/sh
# Makes .venv from uv.lock. Needs Python 3.11 or newer and nothing else: uv comes by pip into .uv/ if it is not there.
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

find_uv() {
    if [ -x .uv/bin/uv ]; then
        echo "$PWD/.uv/bin/uv"
    elif uv --version >/dev/null 2>&1; then
        command -v uv
    fi
}

install_uv() {
    echo "setup: installing uv into .uv/"
    rm -rf .uv
    if "$python" -m pip --version >/dev/null 2>&1 &&
        "$python" -m pip install --quiet --disable-pip-version-check --target .uv uv; then
        return
    fi
    rm -rf .uv
    if "$python" -m venv .uv >/dev/null 2>&1 && .uv/bin/pip install --quiet --disable-pip-version-check uv; then
        return
    fi
    rm -rf .uv
    "$python" -c 'import ensurepip' 2>/dev/null || "$python" -m pip --version >/dev/null 2>&1 ||
        fail "$python has neither pip nor venv. On Debian or Ubuntu: apt-get install python3-pip python3-venv"
    fail "uv could not be installed by pip: see the lines above (no network, or no package index?)."
}

python=$(find_python)
[ -n "$python" ] || fail "Python 3.11 or newer is needed and was not found on PATH. On Debian or Ubuntu: apt-get install python3"

uv=$(find_uv)
if [ -z "$uv" ]; then
    install_uv
    uv="$PWD/.uv/bin/uv"
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

# A proxy that signs with a certificate of its own is known to the system, not to uv: hence the second try.
sync || {
    echo "setup: once more, with the certificates that this system trusts"
    UV_SYSTEM_CERTS=1 sync
}
