#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Usage: types_test.sh BUILD PROGRAM...
#
# The Python package and programs that use it are fully typed, and a type checker finds the types of the package.
set -eu
build=$1
shift
if ! command -v mypy >/dev/null; then
    echo "skipped: mypy is missing, Debian's package is mypy"
    exit 77
fi
unset PYTHONPATH
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
export MYPYPATH="$build/python"
check() {
    mypy --strict --cache-dir "$build/mypy" "$@"
}
check -p rpma
for program; do
    check "$program"
done

cat >"$directory/wrong.py" <<'END'
import rpma

peer: rpma.Peer = rpma.Device("127.0.0.1")
length: str = rpma.RemoteMemory(b"").flush_type
END
found=$(check "$directory/wrong.py" | grep -c 'wrong.py:[34]: error: Incompatible types') || true
[ "$found" = 2 ] || {
    echo "mypy reports $found of 2 type errors: types of the package not found"
    exit 1
}
