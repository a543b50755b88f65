#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: settings_test.sh SOFTRDMA LIBSOFTRDMA
# An invalid value of SOFTRDMA_* ends a program that uses the device, with one line on standard error and exit code 2.
softrdma=$1
. "$(dirname "$0")/script_lib.sh"
command -v ibv_devinfo >/dev/null || skip "ibv_devinfo is not installed"
make_work
library=$work/libsoftrdma.so
ln -s "$2" "$library" # LD_PRELOAD cannot contain a path with a blank

fail() {
    echo "FAILED: $*; stderr:"
    cat "$work/err"
    failures=$((failures + 1))
}

# expect_refused SETTING COMMAND...
expect_refused() {
    setting=$1
    shift
    env "$setting" "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ $code -eq 2 ] || fail "$setting $*: exit code $code"
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "$setting $*: not one line"
    grep -q "^softrdma: ${setting%%=*}: invalid value '${setting#*=}'.* (use " "$work/err" || fail "$setting $*: does not report the error"
}

expect_accepted() {
    env "$1" "$softrdma" run ibv_devinfo >"$work/out" 2>"$work/err" || fail "$1 is refused"
}

for setting in SOFTRDMA_TRANSPORT=tpc SOFTRDMA_TRANSPORT=TCP SOFTRDMA_ROCE=on SOFTRDMA_ROCE_SOURCE_PORT=4791 SOFTRDMA_TRUST=None SOFTRDMA_TRUST=no SOFTRDMA_NATIVE_VERBS=0 \
    SOFTRDMA_READ_FLUSH=OFF SOFTRDMA_VOLATILE=refused SOFTRDMA_PRIVATE_DATA=1 SOFTRDMA_LOOPBACK=all SOFTRDMA_LINK=ib SOFTRDMA_LOG=warning \
    SOFTRDMA_CM_TIMEOUT_MS=1s SOFTRDMA_CM_TIMEOUT_MS=0 SOFTRDMA_CM_TIMEOUT_MS=99999999999999999999 \
    SOFTRDMA_TIMEWAIT_MS=-1 SOFTRDMA_PORT_OFFSET=65536 SOFTRDMA_PORT_OFFSET=+; do
    expect_refused "$setting" "$softrdma" run ibv_devinfo
    expect_refused "$setting" "$softrdma" info
    expect_refused "$setting" env LD_PRELOAD="$library" ibv_devinfo
    # A program that does not use the device ignores the settings.
    env "$setting" LD_PRELOAD="$library" true || fail "$setting disturbs a program without RDMA"
done
expect_refused SOFTRDMA_POWERCUT=now "$softrdma" run ibv_devinfo
env SOFTRDMA_FAULT=explode "$softrdma" run ibv_devinfo >"$work/out" 2>"$work/err"
[ $? -eq 2 ] && [ "$(wc -l <"$work/err")" -eq 1 ] || fail "SOFTRDMA_FAULT=explode is not refused"

for setting in SOFTRDMA_TRANSPORT= SOFTRDMA_TRANSPORT=auto SOFTRDMA_TRANSPORT=shm SOFTRDMA_TRANSPORT=shm-fd SOFTRDMA_TRANSPORT=tcp \
    SOFTRDMA_ROCE=connect SOFTRDMA_ROCE=listen SOFTRDMA_ROCE=off SOFTRDMA_ROCE_SOURCE_PORT=flow SOFTRDMA_ROCE_SOURCE_PORT=fixed SOFTRDMA_TRUST=user SOFTRDMA_TRUST=none SOFTRDMA_NATIVE_VERBS=on SOFTRDMA_NATIVE_VERBS=off SOFTRDMA_READ_FLUSH=on \
    SOFTRDMA_READ_FLUSH=off SOFTRDMA_VOLATILE=accept SOFTRDMA_VOLATILE=reject SOFTRDMA_PRIVATE_DATA=padded \
    SOFTRDMA_PRIVATE_DATA=exact SOFTRDMA_LOOPBACK=device SOFTRDMA_LOOPBACK=wildcard SOFTRDMA_LINK=ethernet \
    SOFTRDMA_LINK=infiniband SOFTRDMA_LOG=off SOFTRDMA_LOG=error SOFTRDMA_LOG=debug SOFTRDMA_CM_TIMEOUT_MS=86400000 \
    SOFTRDMA_TIMEWAIT_MS=0 SOFTRDMA_PORT_OFFSET=-65535; do
    expect_accepted "$setting"
done

# Names and values of development versions are still accepted.
for setting in SOFTRDMA_PATH=local SOFTRDMA_PATH=descriptors SOFTRDMA_PATH=tcp SOFTRDMA_NATIVE=off SOFTRDMA_VOLATILE=refuse \
    SOFTRDMA_LOOPBACK=any; do
    expect_accepted "$setting"
    [ ! -s "$work/err" ] || fail "$setting is reported"
done
expect_refused SOFTRDMA_PATH=tpc "$softrdma" run ibv_devinfo
SOFTRDMA_PATH=tcp "$softrdma" info | grep -q '^setting: *SOFTRDMA_PATH=tcp$' || fail "SOFTRDMA_PATH=tcp is not shown"
SOFTRDMA_PATH=tcp "$softrdma" info | grep -v '^setting:' >"$work/former"
SOFTRDMA_TRANSPORT=tcp "$softrdma" info | grep -v '^setting:' >"$work/present"
grep -q 'not used: SOFTRDMA_TRANSPORT=tcp' "$work/former" && cmp -s "$work/former" "$work/present" || fail "SOFTRDMA_PATH=tcp is ignored"
SOFTRDMA_ROCE=off "$softrdma" info | grep -q '^path roce: *not used: SOFTRDMA_ROCE=off$' || fail "SOFTRDMA_ROCE=off is not shown"
exit $((failures > 0))
