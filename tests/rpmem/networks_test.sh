#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: networks_test.sh TWO_NAMESPACES COMMAND...: runs the tests of ssh as on two machines: sshd in one network namespace,
# the program in another one.
[ "$(id -u)" -eq 0 ] || {
    echo "skipped: a sshd in a network of its own needs root"
    exit 77
}
# root creates the namespaces without a user namespace, because sshd must change its user.
[ -n "$TEST_OWN_NETWORK" ] || TEST_OWN_NETWORK=1 exec unshare -n sh "$0" "$@"
helper=$1
shift
. "$helper"
trap 'kill $peer' EXIT
TARGET_ADDRESSES="$address $address6" AT_TARGET=$at_server "$@"
