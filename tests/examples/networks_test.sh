#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: networks_test.sh RUNNER BUILD TWO_NAMESPACES
# Runs all examples as on two machines: the servers in one network namespace, the clients in another one.
runner=$1 build=$2
. "$3"
report=$(mktemp) || exit 1
servers=
trap 'kill $servers $peer 2>/dev/null; rm -f "$report"' EXIT
$at_server "$runner" --build "$build" --transport softrdma --role server --addr "$address" >"$report" 2>&1 &
servers=$!
"$runner" --build "$build" --transport softrdma --server "$address"
clients_code=$?
[ $clients_code -eq 0 ] || kill $servers
wait $servers
servers_code=$?
servers=
cat "$report"
[ $clients_code -eq 0 ] && [ $servers_code -eq 0 ]
