#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: dropin_test.sh SOFTRDMA DROPIN-DIRECTORY LIBRARY-DIRECTORY
# The library that stands in for libibverbs and librdmacm has their symbols with their versions, and programs run on it. The
# preloaded library replaces all their public functions: a real one would be called with objects of the device.
softrdma=$1 dropin=$2 libraries=$3
device=$dropin/../libsoftrdma.so
. "$(dirname "$0")/script_lib.sh"
make_work

# versions LIBRARY...: prints "symbol@node" of the symbols to which programs and provider libraries can bind; old
# programs use them without versions
versions() {
    for library in "$@"; do
        nm -D --defined-only "$library"
    done | grep -e '@@' -e '@IBVERBS_PRIVATE' | sed -n 's/.* [TBD] \([^ ]*@.*\)/\1/p' | sed 's/@@/@/' | sort -u
}

if [ -e "$libraries/libibverbs.so.1" ] && [ -e "$libraries/librdmacm.so.1" ]; then
    versions "$libraries/libibverbs.so.1" "$libraries/librdmacm.so.1" >"$work/real"
    versions "$dropin/libibverbs.so.1" >"$work/ours"
    [ "$(wc -l <"$work/real")" -ge 150 ] || fail "could not list the real symbols"
    missing=$(comm -23 "$work/real" "$work/ours")
    [ -z "$missing" ] || fail "the library lacks $missing"
    # Only provider libraries call ibv_register_driver, with objects of their own.
    nm -D --defined-only "$libraries/libibverbs.so.1" "$libraries/librdmacm.so.1" |
        sed -n 's/.* [TWi] \([a-z_0-9]*\)@@*\(IBVERBS\|RDMACM\)_[0-9].*/\1/p' | grep -v -x ibv_register_driver | sort -u >"$work/wanted"
    nm -D --defined-only "$device" | awk '$2 == "T" { print $3 }' | sort -u >"$work/replaced"
    [ "$(wc -l <"$work/wanted")" -ge 100 ] || fail "could not list the real functions"
    missing=$(comm -23 "$work/wanted" "$work/replaced")
    [ -z "$missing" ] || fail "the device lacks $missing"
else
    echo "skipped: no rdma-core in $libraries to compare with"
fi
for name in libibverbs.so librdmacm.so librdmacm.so.1; do
    [ "$(readlink -f "$dropin/$name")" = "$(readlink -f "$dropin/libibverbs.so.1")" ] || fail "$name is another library"
done
# Only the preloaded library has symbols without a version: functions of the C library that it replaces.
nm -D --defined-only "$dropin/libibverbs.so.1" | sed -n 's/.* [TDBRVWi] \([^@]*\)$/\1/p' | sort >"$work/plain"
nm -D --defined-only "$device" | sed 's/.* //' | sort >"$work/preload"
[ "$(wc -l <"$work/plain")" -ge 50 ] || fail "could not list the replaced functions"
leaked=$(comm -23 "$work/plain" "$work/preload")
[ -z "$leaked" ] || fail "the library exports $leaked"
! grep '@' "$work/preload" || fail "the symbols of the device have versions: not allowed in a preload"
! grep '^_Z' "$work/preload" || fail "C++ symbols are exported"
! readelf -d "$device" | grep NEEDED | grep -v -e libc.so -e ld-linux || fail "the device needs other libraries"
# A program of a later release of rdma-core needs the nodes of that release; a provider needs all private symbols in the
# node of its release.
for node in IBVERBS_1.25 RDMACM_1.9; do
    readelf --version-info "$dropin/libibverbs.so.1" | grep -q "Name: $node\$" || fail "the library lacks the node $node"
done
private_symbols() {
    nm -D --defined-only "$dropin/libibverbs.so.1" | sed -n "s/.* [TBD] \([^ ]*\)@*@IBVERBS_PRIVATE_$1\$/\1/p" |
        sed 's/_[0-9]*$//' | sort
}
private_symbols 34 >"$work/first"
private_symbols 71 >"$work/later"
[ "$(wc -l <"$work/first")" -ge 90 ] && cmp -s "$work/first" "$work/later" || fail "later releases lack private symbols"

on_dropin() {
    command -v "$1" >/dev/null || { echo "skipped: $1 is not installed"; return 1; }
    timeout 20 "$softrdma" run --dropin "$@" >"$work/out" 2>&1 || fail "$*: $(cat "$work/out")"
}

if on_dropin ibv_devices && ! grep -q softrdma0 "$work/out"; then
    fail "ibv_devices does not list softrdma0: $(cat "$work/out")"
fi
on_dropin sh -c 'ib_write_lat --version || true' # links libmlx5 and libefa, which want private symbols
if grep -q 'symbol lookup error\|no version information' "$work/out"; then
    fail "ib_write_lat: $(cat "$work/out")"
fi
on_dropin python3 -c '
import ctypes
count = ctypes.c_int()
library = ctypes.CDLL("libibverbs.so.1")
library.ibv_get_device_list(ctypes.byref(count))
raise SystemExit(count.value != 1)'
exit $((failures > 0))
