# SPDX-License-Identifier: BSD-3-Clause
# Sourced by programs_test.sh, which sets softrdma, lane, at_server, address, address6, work, ran and failures.

# Seconds after which a program counts as hung. Programs take many times as long on a busy machine.
limit=${PROGRAM_LIMIT_S:-300}

report() {
    echo "FAILED ($lane): $*"
    tail -n 100 "$work"/*.out
    failures=$((failures + 1))
}

# Ends the test when a program hung: later programs would hang too, and the output would be lost.
end_if_hung() {
    for code; do
        if [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
            echo "FAILED ($lane): a program timed out after $limit s: remaining programs not run"
            exit 1
        fi
    done
}

have() {
    command -v "$1" >/dev/null && return 0
    echo "skipped: $1 is not installed"
    return 1
}

alone() {
    have "$1" || return
    ran=$((ran + 1))
    timeout -k 2 "$limit" "$softrdma" run "$@" >"$work/alone.out" 2>&1
    code=$?
    [ $code -eq 0 ] || report "$@: $code"
    end_if_hung $code
}

tcp_sockets() {
    $at_server cat /proc/net/tcp /proc/net/tcp6
}

# Avoids the ports that examples/run uses: a server started there might not listen yet.
free_port() {
    port=$((10000 + ($$ * 7 + ran * 13) % 8000))
    while tcp_sockets | awk '{ print $2 }' | grep -qi ":$(printf %04X $port)$"; do
        port=$((port + 1))
    done
}

# Over RoCE, a listener of the connection manager has no TCP socket that listens.
listens() {
    [ "$lane" = roce ] && $at_server grep -Eq "/service/(106|111)$(printf %04x "$1")/" /proc/net/unix && return
    tcp_sockets | awk '$4 == "0A" { print $2 }' | grep -qi ":$(printf %04X "$1")$"
}

# Replaces %p by a free port or $fixed_port, and %a and %6 by the addresses of the server. Starts the command before the
# // on the server's side and runs the command after it.
run_pair() {
    port=$fixed_port
    [ -n "$port" ] || free_port
    text=$(echo "$*" | sed "s/%p/$port/g; s/%a/$address/g; s/%6/$address6/g")
    ran=$((ran + 1))
    $at_server timeout -k 2 "$limit" "$softrdma" run ${text%% // *} >"$work/server.out" 2>&1 &
    server=$!
    await listens $port
    timeout -k 2 "$limit" "$softrdma" run ${text##* // } >"$work/client.out" 2>&1
    client_code=$?
}

# both SERVER // CLIENT: programs that both exit
both() {
    have "$1" || return
    run_pair "$@"
    wait $server
    server_code=$?
    server=
    if [ $client_code -ne 0 ] || [ $server_code -ne 0 ]; then
        report "$text: client $client_code, server $server_code"
    fi
    end_if_hung $client_code $server_code
}

# serving SERVER // CLIENT: a server that runs until it is killed
serving() {
    have "$1" || return
    run_pair "$@"
    kill $server 2>/dev/null
    wait $server 2>/dev/null
    server=
    [ $client_code -eq 0 ] || report "$text: client $client_code"
    end_if_hung $client_code
}
