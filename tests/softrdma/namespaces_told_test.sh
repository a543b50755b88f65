# SPDX-License-Identifier: BSD-3-Clause
# Programs of one host in two network namespaces: both report this as the reason for not sharing memory.
# usage: namespaces_told_test.sh LAUNCHER TWO_NAMESPACES
launcher=$1
command -v rping >/dev/null || { echo "skipped: rping is not installed"; exit 77; }
. "$2"
unset SOFTRDMA_TRANSPORT
export SOFTRDMA_LOG=info
work=$(mktemp -d)
trap 'kill $peer; rm -rf "$work"' EXIT

$at_server "$launcher" run rping -s -a "$address" -C 3 >/dev/null 2>"$work/server" &
server=$!
# The number of the port, 7174, as the kernel shows it.
tries=0
while ! $at_server grep -q ':1C06 .* 0A ' /proc/net/tcp && [ $tries -lt 1000 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
"$launcher" run rping -c -a "$address" -C 3 >/dev/null 2>"$work/client" || { cat "$work/client"; exit 1; }
wait $server || { cat "$work/server"; exit 1; }
for side in server client; do
    grep -q 'shared memory not used: they are in different network namespaces (all traffic over TCP)$' "$work/$side" || {
        echo "the $side does not report it:"
        cat "$work/$side"
        exit 1
    }
done
echo "both sides report it"
