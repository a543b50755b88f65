#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Usage: device.sh TESTS
#
# Builds the tests of the device in the directory TESTS with this system's compiler and rdma-core, and runs them on the
# installed device, as a preload and as drop-in libraries. Then runs the programs of this system's rdma-core. Their shared
# functions are in TESTS/../support.
set -eu
tests=$1
support=$tests/../support
softrdma=/usr/bin/softrdma
libraries=/usr/lib/$(gcc -print-multiarch)
device=$libraries/softrdma
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
ran=0
cd "$work"
mount -t sysfs sysfs /sys

check() {
    ran=$((ran + 1))
    status=0
    timeout 300 "$@" >"$work/log" 2>&1 || status=$?
    case $status in
    0) ;;
    77) echo "skipped: $*: $(grep -m1 skipped "$work/log")" ;;
    *)
        echo "FAILED: $*: status $status"
        tail -n 40 "$work/log"
        failures=$((failures + 1))
        ;;
    esac
}

for name in cm data direct events newer_calls objects states windows; do
    extra=
    [ "$name" != windows ] || extra=$tests/windows.c
    # shellcheck disable=SC2086 # no file, or one
    gcc -O1 -D_GNU_SOURCE -I"$support" -rdynamic -o "$name" "$tests/${name}_test.c" "$tests/fixture.c" "$tests/remote.c" \
        "$support/resources.c" $extra -lcmocka -libverbs -lrdmacm -lpthread
done
g++ -std=c++20 -O1 -o sysfs "$tests/sysfs_test.cpp" -lcmocka -libverbs -lpthread
gcc -O1 -shared -fPIC -o libsoftrdma_found_by_runpath.so "$tests/found_by_runpath.c"
gcc -O1 -rdynamic -o dlopen "$tests/dlopen_test.c" -Wl,-rpath,"$work" -lcmocka -ldl

for option in "" --dropin; do
    for name in cm data direct events newer_calls objects states sysfs windows "dlopen $libraries/libibverbs.so.1"; do
        # shellcheck disable=SC2086 # a program with its argument; none, or one option
        check "$softrdma" run $option -- $work/$name
    done
done
check sh "$tests/sysfs_test.sh" "$softrdma" /usr/share/softrdma/valgrind.supp
check sh "$tests/dropin_test.sh" "$softrdma" "$device/dropin" "$libraries"
check sh "$tests/surface_test.sh" "$device/libsoftrdma.so" "$libraries"
# In a chroot, only root can create network namespaces.
for path in local loopback netns; do
    for group in manager pingpong; do
        check env TEST_OWN_NETWORK=1 unshare -n sh -c 'ip link set lo up && exec sh "$@"' sh \
            "$tests/programs_test.sh" "$softrdma" $path $group
    done
done
echo "$((ran - failures)) of $ran passed with rdma-core $(dpkg-query -W -f '${Version}' libibverbs1)"
[ $failures -eq 0 ]
