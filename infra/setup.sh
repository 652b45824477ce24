#!/bin/sh
# Makes .venv: uv, Python 3.13 and the locked requirements. Quick when nothing changed.
set -eu
cd "$(dirname "$0")/.."
UV_VERSION=0.13.8
tools=.logflume/tools
stamp="$tools/venv.stamp"
want=$(cat infra/setup.sh infra/requirements.txt pyproject.toml | cksum)
[ -x .venv/bin/logflume ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && exit 0

fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

command -v python3 >/dev/null || fail "python3 is missing (any version from 3.9, with its venv module)"
mkdir -p "$tools"
if ! "$tools/uv/bin/uv" --version 2>/dev/null | grep -qF "uv $UV_VERSION"; then
    echo "setup: installing uv $UV_VERSION"
    rm -rf "$tools/uv"
    python3 -m venv "$tools/uv" || fail "python3 -m venv failed (Debian: apt-get install python3-venv)"
    "$tools/uv/bin/pip" install --quiet --disable-pip-version-check "uv==$UV_VERSION" || fail "cannot install uv from PyPI"
fi
uv="$tools/uv/bin/uv"

# A pyenv shim of a version that is not selected answers 127 and stops uv's own search: try what really runs first.
python=
for candidate in "$(command -v python3.13 || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.13*/bin/python3.13; do
    if [ -x "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null; then
    echo "setup: making .venv with Python 3.13"
    "$uv" venv --quiet --clear --python "${python:-3.13}" .venv \
        || fail "no Python 3.13: install it (system package, pyenv, or let uv download it) and run again"
fi
echo "setup: installing the locked requirements"
"$uv" pip sync --quiet --python .venv/bin/python --require-hashes infra/requirements.txt
"$uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
ln -sf "../../$uv" .venv/bin/uv
printf '%s\n' "$want" > "$stamp"
