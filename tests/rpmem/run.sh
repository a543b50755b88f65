#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: run.sh RPMEMD TEST [LAUNCHER...]: runs the test, behind the launcher if given, with a directory of poolsets of
# its own, which is removed afterwards. The daemon writes its process id to the file `pid` there. Variables:
# RPMEM_TEST_PLACE is the place of the directory (default: in memory), RPMEM_TEST_BEFORE the commands of the shell
# before it starts the daemon, RPMEM_TEST_OPTIONS the daemon's options, RPMEM_TEST_OPERANDS the operands of the test,
# and RPMEM_TEST_PRELOAD the libraries that are preloaded into both.
set -u
rpmemd=$1 test=$2
shift 2
RPMEM_TEST_DIR=$(mktemp -d "${RPMEM_TEST_PLACE:-/dev/shm}/rpmem-test-XXXXXX") || exit 1
export RPMEM_TEST_DIR
trap 'rm -rf "$RPMEM_TEST_DIR"' EXIT
umask 077
printf 'PMEMPOOLSET\n16M %s/pool.part\n' "$RPMEM_TEST_DIR" >"$RPMEM_TEST_DIR/pool.set"
printf 'PMEMPOOLSET\nOPTION NOHDRS\n16M %s/plain.part\n' "$RPMEM_TEST_DIR" >"$RPMEM_TEST_DIR/plain.set"
echo nothing >"$RPMEM_TEST_DIR/broken.set"
daemon="exec '$rpmemd' --max-sessions 1000 --poolset-dir $RPMEM_TEST_DIR --log-file $RPMEM_TEST_DIR/log ${RPMEM_TEST_OPTIONS:-}"
[ -n "${RPMEM_CMD-}" ] || export RPMEM_CMD="echo \$\$ >$RPMEM_TEST_DIR/pid; ${RPMEM_TEST_BEFORE:+$RPMEM_TEST_BEFORE;} $daemon"
export RPMEM_TRANSPORT=exec RPMEM_LOG_LEVEL=3 RPMEM_LOG_FILE="$RPMEM_TEST_DIR/library.log"
export FAILING_MSYNC_FILE="$RPMEM_TEST_DIR/fail"
export RPMEM_STATE_FILE="$RPMEM_TEST_DIR/lost"
if [ -n "${RPMEM_TEST_PRELOAD-}" ]; then # through a link, because a blank ends a path there
    ln -s "$RPMEM_TEST_PRELOAD" "$RPMEM_TEST_DIR/preload.so"
    set -- env "LD_PRELOAD=$RPMEM_TEST_DIR/preload.so" "$@"
fi
# shellcheck disable=SC2086 # operands are meant to be split
"$@" "$test" ${RPMEM_TEST_OPERANDS:-}
result=$?
[ "$result" -eq 0 ] || tail -n 50 "$RPMEM_TEST_DIR/log" "$RPMEM_TEST_DIR/library.log" >&2
exit "$result"
