#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Usage: versions_test.sh SOURCE BUILD
#
# Runs tests of mirrored sets and of pools with the daemon of an older commit, and those of the older commit with the daemon
# of BUILD. OLDER_COMMIT is by default the first one that uses TLS: each later commit must work together with it.
set -eu
source=$1
new=$2
programs="mirror_creation_test mirror_set_test mirror_tickets_test mirror_loss_test mirror_killed_test
    rpmem_basic_test rpmem_pool_test rpmem_loss_test rpmem_replicas_test rpmem_log_in_pool"
tests="mirror\\.(creation|set|tickets|loss|killed)_test|rpmem\\.(basic|pool|loss)_test"

skip() {
    echo "skipped: $1"
    exit 77
}

cd "$source"
commit=${OLDER_COMMIT:-$(git log --diff-filter=A --format=%H -- src/replica/tls_stream.cpp 2>/dev/null)}
git rev-parse --quiet --verify "$commit^{commit}" >/dev/null || skip "no history of the sources: this is not a whole clone"
as_root="unshare --map-root-user --mount"
$as_root true 2>/dev/null || skip "no namespace of mounts can be created here"

scratch=$(mktemp -d /var/tmp/mirror-versions-XXXXXX)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$scratch/source"
git archive "$commit" | tar -x -C "$scratch/source"
old=$scratch/build
echo "building $(git log -1 --format='%h, %s' "$commit")"
# shellcheck disable=SC2086 # the list is meant to be split
if ! cmake -S "$scratch/source" -B "$old" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRPMA_BUILD_BENCH=OFF -DRPMA_BUILD_MAN=OFF \
    -DRPMA_BUILD_PYTHON=OFF "-DRPMA_TEST_SUITES=mirror;rpmem" >"$scratch/log" 2>&1 ||
    ! cmake --build "$old" --target rpmemd softrdma $programs >>"$scratch/log" 2>&1; then
    tail -n 40 "$scratch/log"
    exit 1
fi

# run TESTS BUILD-OF-THE-TESTS BUILD-OF-THE-DAEMON
run() {
    mkdir -p "$2/Testing" "$2/libexec/rpmemd"
    # Hides the log and the durations of the build's own tests.
    # shellcheck disable=SC2016 # the inner shell expands them
    $as_root sh -c 'mount --bind "$3/bin/rpmemd" "$2/bin/rpmemd" && mount -t tmpfs none "$2/Testing" &&
        { ! [ -d "$3/libexec/rpmemd" ] || mount --bind "$3/libexec/rpmemd" "$2/libexec/rpmemd"; } &&
        exec ctest --test-dir "$2" --output-on-failure -R "^($1)\$"' sh "$@"
}
status=0
echo "old library"
run "$tests|rpmem\\.(replicas_test|several_targets)" "$old" "$new" || status=1
echo "old daemon"
run "$tests" "$new" "$old" || status=1
# A pool on several targets requires that the targets are upgraded first.
if ! run "rpmem\\.replicas_test" "$new" "$old" >"$scratch/log" &&
    ! grep "several targets not supported by this version (update it)" "$scratch/log"; then
    cat "$scratch/log"
    status=1
fi
exit "$status"
