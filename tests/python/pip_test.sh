#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Usage: pip_test.sh SOFTRDMA
#
# Installs the package with pip from its source archive into a virtual environment, without a network. The package
# contains its own librpma, and transfers data.
set -eu
softrdma=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
python=/usr/bin/python3 # Debian's Python, for which the packages are built
if ! "$python" -c 'import cffi, ensurepip, setuptools, wheel' 2>/dev/null; then
    echo "skipped: python3-cffi, python3-setuptools, python3-venv or python3-wheel is missing"
    exit 77
fi
unset PYTHONPATH
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
directory="$temporary/my tests (1)"
# Copies the device to a directory without the librpma of the build, which programs could find instead.
mkdir -p "$directory/device/bin" "$directory/device/lib"
cp "$softrdma" "$directory/device/bin"
ln -s "$(dirname "$softrdma")/../lib/libsoftrdma.so" "$directory/device/lib"
softrdma=$directory/device/bin/softrdma
# Setuptools writes into its source directory, so it gets a copy.
mkdir "$directory/source"
(cd "$source" && git -c "safe.directory=$source" ls-files -z --cached --others --exclude-standard -- pyproject.toml setup.py MANIFEST.in \
    CMakeLists.txt LICENSE cmake docs include src | xargs -0 cp --parents -t "$directory/source")
cd "$directory/source"
export CCACHE_BASEDIR="$directory/source"
"$python" setup.py -q sdist -d "$directory" 2>"$directory/log" || { cat "$directory/log"; exit 1; }
cd "$directory"
"$python" -m venv --system-site-packages venv
venv/bin/pip install --no-index --no-build-isolation --no-cache-dir --disable-pip-version-check rpma-*.tar.gz >log 2>&1 || { cat log; exit 1; }
version=$(sed -n 's/^project(librpma VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
venv/bin/pip list --disable-pip-version-check | grep -E "^rpma +$version\$"
venv/bin/python -m zipfile -h >/dev/null # the interpreter of the environment works
"$softrdma" run -- venv/bin/python -c '
import pathlib, rpma, sys
maps = pathlib.Path("/proc/self/maps").read_text()
assert f"{sys.prefix}/lib" in rpma.__file__, rpma.__file__
assert str(pathlib.Path(rpma.__file__).with_name("librpma.so.0")) in maps, maps
'
"$directory/venv/bin/python" -c '
import rpma
try:
    rpma.Device("127.0.0.1")
except rpma.Error as error:
    assert "no RDMA device found (use DeviceKind.ANY" in str(error), error
'
cd "$source/tests/python"
PYTHONPATH=. "$softrdma" run -- "$directory/venv/bin/python" transfer_test.py
