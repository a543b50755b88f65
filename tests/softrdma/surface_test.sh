#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: surface_test.sh LIBSOFTRDMA LIBRARY-DIRECTORY
# The device must replace every public function of the installed libibverbs and librdmacm: a real one would be called
# with objects of the device.
device=$1 libraries=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

for library in libibverbs.so.1 librdmacm.so.1; do
    if [ ! -e "$libraries/$library" ]; then
        echo "skipped: no $library in $libraries"
        exit 77
    fi
    nm -D --defined-only "$libraries/$library"
done | sed -n 's/.* [TWi] \([a-z_0-9]*\)@@*\(IBVERBS\|RDMACM\)_[0-9].*/\1/p' | sort -u >"$work/real"
nm -D --defined-only "$device" | awk '$2 == "T" { print $3 }' | sort -u >"$work/ours"

# Only provider libraries call this function, with objects of their own.
grep -v -x -e ibv_register_driver "$work/real" >"$work/wanted"
if [ "$(wc -l <"$work/wanted")" -lt 100 ]; then
    echo "FAILED: could not list the real symbols"
    exit 1
fi
missing=$(comm -23 "$work/wanted" "$work/ours")
if [ -n "$missing" ]; then
    echo "FAILED: the device lacks" $missing
    exit 1
fi
if nm -D --defined-only "$device" | grep -q '@'; then
    echo "FAILED: the symbols of the device have versions: not allowed in a preload"
    exit 1
fi
if readelf -d "$device" | grep NEEDED | grep -v -e libc.so -e ld-linux; then
    echo "FAILED: the device needs other libraries"
    exit 1
fi
if nm -D --defined-only "$device" | awk '{ print $3 }' | grep -q '^_Z'; then
    echo "FAILED: C++ symbols are exported"
    exit 1
fi
exit 0
