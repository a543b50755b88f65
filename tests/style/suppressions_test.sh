#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: suppressions_test.sh SOURCE
# Checks that each function or source file in a ThreadSanitizer suppression exists, so that renames update the
# suppression.
cd "$1" || exit 1
names=$(sed -n 's/^[a-z]*:\(.*::\)\{0,1\}//p' tests/*/tsan.supp)
[ -n "$names" ] || { echo "no suppression was found"; exit 1; }
status=0
for name in $names; do
    grep -qrw "$name" src || [ -n "$(find src -name "$name")" ] ||
        { echo "tests/*/tsan.supp: $name: no such function or file"; status=1; }
done
exit $status
