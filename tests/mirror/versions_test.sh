#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Usage: versions_test.sh SOURCE BUILD
#
# Runs the tests of mirrored sets with daemons of an older commit, and those of the older commit with the daemon of BUILD.
# OLDER_COMMIT is by default the one before the latest change of the control messages or of the state of a copy. The test
# is skipped if that one does not use TLS, which both sides require.
set -eu
source=$1
new=$2
tests="creation_test set_test tickets_test loss_test killed_test"
formats="src/replica/control.proto src/replica/mirror_state.cpp src/replica/mirror_file.cpp"

skip() {
    echo "skipped: $1"
    exit 77
}

cd "$source"
# shellcheck disable=SC2086 # the list is meant to be split
commit=${OLDER_COMMIT:-$(git log -1 --format=%H -- $formats 2>/dev/null)^}
git rev-parse --quiet --verify "$commit^{commit}" >/dev/null || skip "no history of the sources: this is not a whole clone"
git cat-file -e "$commit:src/replica/tls_stream.cpp" 2>/dev/null || skip "$commit does not use TLS"

scratch=$(mktemp -d /var/tmp/mirror-versions-XXXXXX)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$scratch/source"
git archive "$commit" | tar -x -C "$scratch/source"
old=$scratch/build
programs=$(for test in $tests; do echo "mirror_$test"; done)
echo "building $(git log -1 --format='%h, %s' "$commit")"
# shellcheck disable=SC2086 # the list is meant to be split
if ! cmake -S "$scratch/source" -B "$old" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRPMA_BUILD_BENCH=OFF -DRPMA_BUILD_MAN=OFF \
    -DRPMA_BUILD_PYTHON=OFF -DRPMA_BUILD_EXAMPLES=OFF "-DRPMA_TEST_SUITES=mirror" >"$scratch/log" 2>&1 ||
    ! cmake --build "$old" --target rpmemd softrdma $programs >>"$scratch/log" 2>&1; then
    tail -n 40 "$scratch/log"
    exit 1
fi

status=0
# run NAME BUILD-OF-THE-LIBRARY BUILD-OF-THE-DAEMON
run() {
    for test in $tests; do
        if RPMEMD=$3/bin/rpmemd "$2/bin/mirror_$test" >"$scratch/log" 2>&1; then
            echo "$1: $test passed"
        else
            echo "$1: $test failed"
            cat "$scratch/log"
            status=1
        fi
    done
}
run "old daemon" "$new" "$old"
run "old library" "$old" "$new"
exit "$status"
