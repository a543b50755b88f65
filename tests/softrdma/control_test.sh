#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: control_test.sh SOFTRDMA IDLE-PROGRAM
# The commands that look at, and act on, programs which run on the device.
softrdma=$1 program=$2
work=$(mktemp -d) || exit 1
pid=
trap '[ -n "$pid" ] && kill -CONT $pid 2>/dev/null && kill $pid 2>/dev/null; rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    tail -n 30 "$work"/*
    exit 1
}

# start [VARIABLE=VALUE]: pid is that of the program
start() {
    : >"$work/out" # what an earlier one said must not be taken for this one's
    env "$@" "$softrdma" run -- "$program" >"$work/out" 2>"$work/err" &
    pid=$!
    tries=0
    until grep -q ready "$work/out"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || fail "the program does not get ready"
        sleep 0.05
    done
}

expect_failure() {
    wanted=$1
    shift
    timeout 10 "$softrdma" "$@" >"$work/stdout" 2>"$work/stderr"
    code=$?
    [ $code -eq "$wanted" ] || fail "softrdma $*: $code instead of $wanted"
    [ "$(wc -l <"$work/stderr")" -eq 1 ] || fail "softrdma $*: not one line"
}

timeout 10 "$softrdma" info >"$work/info" || fail "info"
for line in "^device: *softrdma0$" "^native verbs: *flush yes" "^path tcp: *available" "^path local: " \
    "^path descriptors: *used" "^limits: "; do
    grep -q "$line" "$work/info" || fail "info lacks '$line'"
done
SOFTRDMA_NATIVE=off SOFTRDMA_TRUST=none timeout 10 "$softrdma" info >"$work/info" || fail "info"
for line in "flush no" "not used: SOFTRDMA_TRUST=none" "^setting: *SOFTRDMA_NATIVE=off"; do
    grep -q "$line" "$work/info" || fail "info lacks '$line'"
done

SOFTRDMA_PATH=tcp timeout 10 "$softrdma" info | grep -q "not used: SOFTRDMA_PATH=tcp" || fail "info of a path not taken"

start SOFTRDMA_POWERCUT=
timeout 20 "$softrdma" ps >"$work/ps" || fail "ps"
grep -Eq "^ *$pid  softrdma_idle_p  +2  " "$work/ps" || fail "ps does not show process $pid with 2 queue pairs"
timeout 20 "$softrdma" ps $pid >"$work/ps" || fail "ps $pid"
[ "$(grep -c "^qp number=[0-9]* state=RTS peer=[0-9]* path=" "$work/ps")" -eq 2 ] || fail "ps $pid shows no 2 queue pairs"
kill -STOP $pid
timeout 20 "$softrdma" ps >"$work/ps" || fail "ps of a stopped process"
grep -Eq "^ *$pid .* does not answer" "$work/ps" || fail "a stopped process is not told"
expect_failure 1 ps $pid
kill -CONT $pid
expect_failure 1 fault $pid explode
expect_failure 1 powercut $pid
timeout 10 "$softrdma" fault $pid off || fail "fault off"
timeout 10 "$softrdma" fault $pid "status=rem_op:op=write" || fail "fault"
wait $pid || fail "the program failed"
pid=
grep -q "remote operation error" "$work/out" || fail "the fault did not come"

start SOFTRDMA_POWERCUT=armed,seed:3
timeout 10 "$softrdma" powercut $pid || fail "powercut"
wait $pid
code=$?
pid=
[ $code -eq 137 ] || fail "the program ended with $code instead of 137"
grep -q "power cut after .* operations with seed 3" "$work/err" || fail "the power cut is not told"

expect_failure 1 ps $$
expect_failure 2 ps x
expect_failure 2 fault 1
expect_failure 2 powercut
exit 0
