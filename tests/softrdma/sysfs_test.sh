#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: sysfs_test.sh SOFTRDMA SUPPRESSIONS
# Tools that read sysfs find the device, with the preload and with the drop-in libraries.
softrdma=$1 suppressions=$2
. "$(dirname "$0")/script_lib.sh"
make_work
port=/sys/class/infiniband/softrdma0/ports/1

# expect PATTERN COMMAND...: fails unless the command succeeds and prints a line that matches
expect() {
    pattern=$1
    shift
    # shellcheck disable=SC2086 # none, or one option
    if ! timeout 300 "$softrdma" run $option -- "$@" >"$work/out" 2>&1 || ! grep -q -e "$pattern" "$work/out"; then
        fail "run $option $*: no '$pattern' or a failure:" "$work/out"
    fi
}

# optional COMMAND: returns whether it is installed
optional() {
    command -v "$1" >/dev/null || { echo "not tested: $1 is not installed"; return 1; }
}

for option in "" --dropin; do
    expect '^4: ACTIVE$' cat $port/state
    expect 'softrdma0 -> ../../devices/platform' ls -l /sys/class/infiniband
    expect 'link_layer$' ls -l $port
    expect "^$port/gid_attrs/types/0$" find /sys/class/infiniband/softrdma0/ -name 0 -path '*types*'
    expect '^Ethernet$' sh -c 'cd /sys/class/infiniband && for d in *; do cat "$d/ports/1/link_layer"; done'
    expect '^/sys/devices/platform/softrdma0$' readlink -f /sys/class/infiniband/softrdma0/device
    expect "^softrdma0 4: ACTIVE /sys/devices/platform/softrdma0$" python3 -c "
import os
name, = os.listdir('/sys/class/infiniband')
print(name, open('$port/state').read().strip(), os.path.realpath('/sys/class/infiniband/softrdma0/device'))"
    if optional ibstatus; then
        expect 'rate:.*100 Gb/sec' ibstatus
    fi
    if optional ibstat; then
        expect 'State: Active' ibstat softrdma0
        expect '^softrdma0$' ibstat -l
    fi
done

option=
if [ "$(id -u)" -eq 0 ] && unshare -mn true 2>/dev/null; then
    expect '^4: ACTIVE$' unshare -m sh -c "mount -t tmpfs -o ro none /dev/shm && exec cat $port/state"
    expect '^0$' unshare -n sh -c "ls $port/gids | wc -l" # a host without addresses
    expect '^nothing$' unshare -m sh -c "mount -t tmpfs -o ro none /dev/shm && mount -t tmpfs -o ro none /tmp &&
        unset XDG_RUNTIME_DIR && ! cat $port/state && echo nothing"
else
    echo "not tested: file systems without space: unshare needs root"
fi
if optional valgrind; then
    expect '' valgrind --quiet --suppressions="$suppressions" --leak-check=full --error-exitcode=9 cat $port/state
fi
# A sanitizer in the program replaces the same functions and precedes the device.
printf '#include <stdio.h>\nint main(void) { char b[32] = ""; FILE *f = fopen("%s/state", "r"); return !f || !fgets(b, 32, f) || puts(b) < 0; }\n' \
    $port >"$work/asan.c"
if optional clang && clang -fsanitize=address -o "$work/asan" "$work/asan.c" 2>"$work/out"; then
    expect '^4: ACTIVE$' "$work/asan"
fi
# shellcheck disable=SC2010 # names without blanks
if ls /dev/shm | grep "^softrdma-sysfs.$(id -u).*.$$."; then
    fail "files of the device remain"
fi
exit $((failures > 0))
