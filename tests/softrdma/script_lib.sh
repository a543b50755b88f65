# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts of this directory.
failures=0

# fail TEXT [FILE]: reports and counts a failure, with the contents of a file
fail() {
    echo "FAILED: $1"
    [ $# -eq 1 ] || cat "$2"
    failures=$((failures + 1))
}

skip() {
    echo "skipped: $*"
    exit 77
}

# Creates a directory, `work`, that is removed at the end.
make_work() {
    work=$(mktemp -d) || exit 1
    trap 'rm -rf "$work"' EXIT
}

# await COMMAND...: waits until it succeeds, for half a minute
await() {
    for attempt in $(seq 300); do
        "$@" && return
        sleep 0.1
    done
    return 1
}
