#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: pmemobj_test.sh LIBRARIES RPMEMD COUNTER: Debian's libpmemobj and pmempool, unchanged, with a pool that has a local
# part and two remote replicas. The program is killed and the local part is lost; nothing that was counted may be missing.
set -eu
libraries=$1 rpmemd=$2 counter=$3
if ! command -v pmempool >/dev/null; then
    echo "skipped: pmempool is not installed (install the package pmdk-tools)"
    exit 77
fi
work=$(mktemp -d /dev/shm/rpmem-pmemobj-XXXXXX)
trap 'rm -rf "$work"' EXIT
umask 077
cd "$work"
mkdir target
for replica in a b; do
    printf 'PMEMPOOLSET\n32M %s/target/%s.part\n' "$work" $replica >target/$replica.set
done
printf 'PMEMPOOLSET\n32M %s/local.part\nREPLICA 127.0.0.1 a.set\nREPLICA 127.0.0.1 b.set\n' "$work" >local.set
export LD_LIBRARY_PATH="$libraries" RPMEM_TRANSPORT=exec PMEMOBJ_NLANES=8
export RPMEM_CMD="exec '$rpmemd' --poolset-dir $work/target --log-file $work/log"

fail() {
    echo "FAILED: $*" >&2
    cat log >&2 || true
    exit 1
}
expect() {
    [ "$2" = "$3" ] || fail "$1: '$2' instead of '$3'"
}

expect "first run" "$("$counter" local.set 2000)" 2000
expect "second run" "$("$counter" local.set 2000 2>&1)" 4000

# The program is killed at any point. The count must continue from the committed value.
before=4000
for round in 1 2 3; do
    "$counter" local.set 1000000 >/dev/null &
    program=$!
    sleep "0.$((round * 3))"
    kill -9 $program
    wait $program 2>/dev/null || true
    now=$("$counter" local.set 0)
    [ "$now" -ge "$before" ] || fail "the count went back from $before to $now"
    before=$now
done

# The local part is lost: both replicas must have the committed data.
rm local.part
pmempool sync local.set
expect "after sync from a replica" "$("$counter" local.set 0)" "$before"

# A replica is lost and rebuilt from the others.
rm target/a.part
pmempool sync local.set
rm local.part target/b.part
pmempool sync local.set
expect "after sync from the rebuilt replica" "$("$counter" local.set 10)" $((before + 10))

pmempool info local.set >info.txt || fail "pmempool info"
grep -q "Remote replica\|Replica 1" info.txt || fail "pmempool info does not name the replicas: $(cat info.txt)"
pmempool rm -r -f local.set || fail "pmempool rm -r"
[ ! -e target/a.part ] && [ ! -e target/b.part ] || fail "pmempool rm -r left parts at the target"
[ -z "$(pgrep -f "$work/target" || true)" ] || fail "a daemon was left running"
echo "counted to $((before + 10)), nothing lost"
