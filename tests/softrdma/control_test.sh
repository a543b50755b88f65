#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: control_test.sh SOFTRDMA IDLE-PROGRAM
# Commands that list and control programs that run on the device.
softrdma=$1 program=$2
. "$(dirname "$0")/script_lib.sh"
make_work
pid=
trap '[ -n "$pid" ] && kill -CONT $pid 2>/dev/null && kill $pid 2>/dev/null; rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    tail -n 30 "$work"/*
    exit 1
}

# await_ready FILE: waits until the program prints that it is ready
await_ready() {
    await grep -q ready "$1" || fail "not ready: $1"
}

# start [VARIABLE=VALUE]: stores the process ID of the program in pid
start() {
    : >"$work/out" # what an earlier one said must not be taken for this one's
    env "$@" "$softrdma" run -- "$program" >"$work/out" 2>"$work/err" &
    pid=$!
    await_ready "$work/out"
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
for line in "^device: *softrdma0$" "^native verbs: *flush yes" "^path tcp: *available" "^path shm: " \
    "^path shm-fd: *used" "^limits: "; do
    grep -q "$line" "$work/info" || fail "info lacks '$line'"
done
SOFTRDMA_NATIVE_VERBS=off SOFTRDMA_TRUST=none timeout 10 "$softrdma" info >"$work/info" || fail "info"
for line in "flush no" "not used: SOFTRDMA_TRUST=none" "^setting: *SOFTRDMA_NATIVE_VERBS=off"; do
    grep -q "$line" "$work/info" || fail "info lacks '$line'"
done

SOFTRDMA_TRANSPORT=tcp timeout 10 "$softrdma" info | grep -q "not used: SOFTRDMA_TRANSPORT=tcp" || fail "info of a path not taken"

start SOFTRDMA_POWERCUT=
timeout 20 "$softrdma" ps >"$work/ps" || fail "ps"
grep -Eq "^ *$pid  softrdma_idle_p  +3  " "$work/ps" || fail "ps does not show process $pid with 3 queue pairs"
timeout 20 "$softrdma" ps $pid >"$work/ps" || fail "ps $pid"
[ "$(grep -c "^qp number=[0-9]* type=rc state=RTS peer=[0-9]* transport=" "$work/ps")" -eq 2 ] || fail "ps $pid shows no 2 connected queue pairs"
grep -Eq "^qp number=[0-9]+ type=ud state=RTS posted=1 sends=1 send_bytes=0 received=0 received_bytes=0 refused=1$" "$work/ps" ||
    fail "ps $pid does not show the datagram that was refused"
kill -STOP $pid
timeout 20 "$softrdma" ps >"$work/ps" || fail "ps of a stopped process"
grep -Eq "^ *$pid .* no response " "$work/ps" || fail "ps does not report a stopped process"
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
grep -q "power cut after .* operations with seed 3" "$work/err" || fail "the power cut is not reported"

# Another user binds the names that later processes may use, and one that has the form of this program's name.
if [ "$(id -u)" -eq 0 ]; then
    python3 -c '
import os, socket, time
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
held = []
for pid in range(os.getpid(), os.getpid() + 3000):
    for name in (f"\0softrdma/{pid}", f"\0softrdma/{pid}/0123456789abcdef"):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            s.bind(name)
            held.append(s)
        except OSError:
            pass
print("ready", flush=True)
time.sleep(60)' >"$work/squatter" 2>&1 &
    squatter=$!
    await_ready "$work/squatter"
else
    squatter=
    echo "skipped: only root can be two users"
fi
# A program whose name contains control characters of a terminal.
name=$(printf 'x\033[31m')
cp "$program" "$work/$name"
"$softrdma" run -- "$work/$name" >"$work/out" 2>"$work/err" &
pid=$!
await_ready "$work/out"
timeout 20 "$softrdma" ps >"$work/ps" || fail "ps"
grep -Eq "^ *$pid  x.x1b\[31m  *3  " "$work/ps" || fail "ps does not show process $pid by an escaped name"
grep -q "$(printf '\033')" "$work/ps" && fail "ps writes control characters"
kill $pid
wait $pid 2>/dev/null
pid=
[ -z "$squatter" ] || kill "$squatter"

expect_failure 1 ps $$
expect_failure 2 ps x
expect_failure 2 fault 1
expect_failure 2 powercut
exit 0
