#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: valgrind_test.sh SOFTRDMA SUPPRESSIONS PROGRAM
# With the installed suppressions, valgrind reports neither uninitialized values nor leaks in a verbs program without
# leaks.
set -eu

softrdma=$1 suppressions=$2 program=$3
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed"; exit 77; }
report=$(mktemp)
trap 'rm -f "$report"' EXIT
result=0
"$softrdma" run valgrind --quiet --trace-children=yes --suppressions="$suppressions" --leak-check=full \
    --show-leak-kinds=all --errors-for-leak-kinds=all --error-exitcode=9 --log-file="$report" "$program" || result=$?
cat "$report"
[ "$result" -eq 0 ] || { echo "the program under valgrind ended with $result"; exit 1; }
[ ! -s "$report" ] || { echo "valgrind reported errors"; exit 1; }
