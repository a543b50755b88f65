# SPDX-License-Identifier: BSD-3-Clause
# Programs of one host in two network namespaces: both report this as the reason for not sharing memory.
# usage: namespaces_told_test.sh LAUNCHER TWO_NAMESPACES
launcher=$1
. "$(dirname "$0")/script_lib.sh"
command -v rping >/dev/null || skip "rping is not installed"
. "$2"
unset SOFTRDMA_TRANSPORT
export SOFTRDMA_LOG=info
make_work
trap 'kill $peer; rm -rf "$work"' EXIT

$at_server "$launcher" run rping -s -a "$address" -C 3 >/dev/null 2>"$work/server" &
server=$!
# The number of the port, 7174, as the kernel shows it.
await $at_server grep -q ':1C06 .* 0A ' /proc/net/tcp
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
