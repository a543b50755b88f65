#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: run.sh RPMEMD TEST [LAUNCHER...]: runs the test, behind the launcher if there is one, with a directory of poolsets
# of its own, which is removed afterwards. The daemon leaves its process id in the file `pid` there.
set -u
rpmemd=$1 test=$2
shift 2
RPMEM_TEST_DIR=$(mktemp -d /dev/shm/rpmem-test-XXXXXX) || exit 1
export RPMEM_TEST_DIR
trap 'rm -rf "$RPMEM_TEST_DIR"' EXIT
umask 077
printf 'PMEMPOOLSET\n16M %s/pool.part\n' "$RPMEM_TEST_DIR" >"$RPMEM_TEST_DIR/pool.set"
printf 'PMEMPOOLSET\nOPTION NOHDRS\n16M %s/plain.part\n' "$RPMEM_TEST_DIR" >"$RPMEM_TEST_DIR/plain.set"
echo nothing >"$RPMEM_TEST_DIR/broken.set"
export RPMEM_CMD="echo \$\$ >$RPMEM_TEST_DIR/pid; exec $rpmemd --poolset-dir $RPMEM_TEST_DIR --log-file $RPMEM_TEST_DIR/log"
export RPMEM_TRANSPORT=exec
"$@" "$test"
result=$?
[ "$result" -eq 0 ] || cat "$RPMEM_TEST_DIR/log" >&2
exit "$result"
