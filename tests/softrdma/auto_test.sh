#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: auto_test.sh SOFTRDMA
# `run --auto` leaves a program to hardware that is up, and only then. /sys/class is replaced in a namespace of our own.
. "$(dirname "$0")/script_lib.sh"
softrdma=$1
if [ -z "$TEST_OWN_MOUNTS" ]; then
    unshare -rm mount -t tmpfs none /sys/class 2>/dev/null || skip "no mount namespace can be created here"
    TEST_OWN_MOUNTS=1 exec unshare -rm sh "$0" "$softrdma"
fi
mount -t tmpfs none /sys/class || exit 1

expect_preload() {
    preload=$("$softrdma" run $2 -- sh -c 'echo "$LD_PRELOAD"')
    case $preload in
    *libsoftrdma.so) got=yes ;;
    *) got=no ;;
    esac
    [ $got = "$1" ] || fail "$3: preloaded: $got"
}

unset LD_PRELOAD
expect_preload yes --auto "no device"
port=/sys/class/infiniband/fake0/ports/1
mkdir -p $port
echo "1: DOWN" >$port/state
expect_preload yes --auto "a port that is down"
echo "4: ACTIVE" >$port/state
expect_preload no --auto "an active port"
expect_preload yes "" "an active port, without --auto"
exit $((failures > 0))
