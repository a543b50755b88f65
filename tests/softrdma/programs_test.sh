#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: programs_test.sh SOFTRDMA
# Unmodified programs of rdma-core and perftest, client and server on this machine.
softrdma=$1
failures=0
ran=0
work=$(mktemp -d) || exit 1
server=
trap '[ -n "$server" ] && kill $server 2>/dev/null; rm -rf "$work"' EXIT

report() {
    echo "FAILED: $*"
    cat "$work"/*.out
    failures=$((failures + 1))
}

have() {
    command -v "$1" >/dev/null && return 0
    echo "skipped: $1 is not installed"
    return 1
}

alone() {
    have "$1" || return
    ran=$((ran + 1))
    timeout 20 "$softrdma" run "$@" >"$work/alone.out" 2>&1 || report "$@"
}

free_port() {
    port=$((20000 + ($$ * 7 + ran * 13) % 10000))
    while awk '{ print $2 }' /proc/net/tcp /proc/net/tcp6 | grep -qi ":$(printf %04X $port)$"; do
        port=$((port + 1))
    done
}

listens() {
    awk '$4 == "0A" { print $2 }' /proc/net/tcp /proc/net/tcp6 | grep -qi ":$(printf %04X "$1")$"
}

# both SERVER-COMMAND // CLIENT-COMMAND, with %p for the port
both() {
    have "$1" || return
    ran=$((ran + 1))
    free_port
    text=$(echo "$*" | sed "s/%p/$port/g")
    timeout 60 "$softrdma" run ${text%% // *} >"$work/server.out" 2>&1 &
    server=$!
    tries=0
    until listens $port || [ $tries -ge 100 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    timeout 60 "$softrdma" run ${text##* // } >"$work/client.out" 2>&1
    client_code=$?
    wait $server
    server_code=$?
    server=
    if [ $client_code -ne 0 ] || [ $server_code -ne 0 ]; then
        report "$text: client $client_code, server $server_code"
    fi
}

alone ibv_devices
alone ibv_devinfo -v
both rping -s -a 127.0.0.1 -p %p -C 20 -V // rping -c -a 127.0.0.1 -p %p -C 20 -V
both rping -s -a ::1 -p %p -C 5 -V -S 60000 // rping -c -a ::1 -p %p -C 5 -V -S 60000
both ucmatose -b 127.0.0.1 -p %p -c 8 -C 30 -S 8192 // ucmatose -s 127.0.0.1 -p %p -c 8 -C 30 -S 8192
both ucmatose -b 127.0.0.1 -p %p -m // ucmatose -s 127.0.0.1 -p %p -m
for round in 1 2 3 4 5; do
    both rdma_server -s 127.0.0.1 -p %p // rdma_client -s 127.0.0.1 -p %p
done
both rdma_xserver -p %p // rdma_xclient -s 127.0.0.1 -p %p
both ib_write_lat -R -p %p -n 200 // ib_write_lat -R -p %p -n 200 127.0.0.1
both ib_read_lat -R -p %p -n 200 // ib_read_lat -R -p %p -n 200 127.0.0.1
both ib_send_lat -R -p %p -n 200 // ib_send_lat -R -p %p -n 200 127.0.0.1
both ib_send_lat -R -e -p %p -n 200 // ib_send_lat -R -e -p %p -n 200 127.0.0.1
both ib_write_bw -R -p %p -n 200 // ib_write_bw -R -p %p -n 200 127.0.0.1
both ib_send_bw -R -p %p -n 200 // ib_send_bw -R -p %p -n 200 127.0.0.1
both ib_read_bw -R -p %p -n 200 // ib_read_bw -R -p %p -n 200 127.0.0.1
both ib_atomic_bw -R -p %p -n 200 // ib_atomic_bw -R -p %p -n 200 127.0.0.1
both ib_atomic_lat -R -A CMP_AND_SWAP -p %p -n 200 // ib_atomic_lat -R -A CMP_AND_SWAP -p %p -n 200 127.0.0.1
both ib_write_bw -R --use_old_post_send -p %p -n 200 // ib_write_bw -R --use_old_post_send -p %p -n 200 127.0.0.1

if [ $ran -eq 0 ]; then
    exit 77
fi
exit $((failures > 0))
