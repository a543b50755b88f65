#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: untouched_test.sh LIBSOFTRDMA
# A program that preloads the device and never calls it gets no additional thread, descriptor or variable.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
library=$work/libsoftrdma.so
ln -s "$1" "$library" # LD_PRELOAD cannot contain a path with a blank

# State that a shell can observe, except its own pipe and the requested preload. grep reads the signal mask, because a
# shell blocks signals while it starts a program.
# shellcheck disable=SC2016
look='ls /proc/$$/task | wc -l
for fd in /proc/$$/fd/*; do readlink $fd; done | sed "s/\[[0-9]*\]//" | sort
grep -E "^(SigBlk|SigIgn|SigCgt|NoNewPrivs|Threads)" /proc/self/status
env | grep -v -e ^LD_PRELOAD= -e ^_= | sort
ulimit -a'
sh -c "$look" >"$work/without" 2>&1 </dev/null
LD_PRELOAD=$library sh -c "$look; grep -c libsoftrdma /proc/\$\$/maps" >"$work/with" 2>&1 </dev/null
if [ "$(tail -n 1 "$work/with")" -lt 1 ]; then
    echo "FAILED: the library was not loaded"
    exit 1
fi
sed -i '$d' "$work/with"
sed -i "s/\/with$/\/without/" "$work/with"
if ! diff "$work/without" "$work/with"; then
    echo "FAILED: a program that never calls the device is changed by it"
    exit 1
fi
exit 0
