#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: vanished_test.sh SOFTRDMA
# Outstanding requests fail when the network to the peer goes down: the loopback interface of an own network namespace.
softrdma=$1
. "$(dirname "$0")/script_lib.sh"
if [ -z "$TEST_OWN_NETWORK" ]; then
    command -v rping >/dev/null || skip "rping is not installed"
    unshare -rn ip link set lo up 2>/dev/null || skip "no network namespace can be created here"
    TEST_OWN_NETWORK=1 exec unshare -rn sh "$0" "$softrdma"
fi
ip link set lo up
make_work
: >"$work/client"
server= client=
trap 'kill $server $client 2>/dev/null; rm -rf "$work"' EXIT
timeout 60 "$softrdma" run rping -s -a 127.0.0.1 -p 7174 -C 1000000 >"$work/server" 2>&1 &
server=$!
await grep -q ":1C06 .* 0A " /proc/net/tcp
timeout 60 "$softrdma" run rping -c -v -a 127.0.0.1 -p 7174 -C 1000000 >"$work/client" 2>&1 &
client=$!
await eval '[ "$(wc -l <"$work/client")" -ge 100 ]'
ip link set lo down
wait $client
code=$?
client=
if [ $code -eq 124 ] || [ "$(wc -l <"$work/client")" -lt 100 ]; then
    echo "client: exit status $code after $(wc -l <"$work/client") lines"
    tail -n 3 "$work/client"
    exit 1
fi
