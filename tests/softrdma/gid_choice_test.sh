#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: gid_choice_test.sh SOFTRDMA PROGRAM
# Programs that search the GID table select an address that other hosts reach, on hosts with different addresses. PROGRAM
# prints their choices.
. "$(dirname "$0")/script_lib.sh"
softrdma=$1 program=$2
unshare -rn ip link add card type veth peer name other 2>/dev/null || skip "no network namespace can be created here"

# expect KIND-OF-HOST COMMANDS CHOICES: the commands configure the interface `card` of a host that otherwise has only
# loopback.
expect() {
    found=$(unshare -rn sh -ec 'ip link set lo up; ip link add card type veth peer name other
        ip link set card addrgenmode none; ip link set other addrgenmode none up; '"$2"'
        exec "$0" run -- "$1"' "$softrdma" "$program" | tr '\n' ' ')
    [ "$found" = "$3 " ] || fail "$1: expected '$3', found '$found'"
}

up='ip link set card up'
v4='ip address add 10.1.2.3/24 dev card'
v6='ip -6 address add fd01::3/64 dev card nodad'
local6='ip -6 address add fe80::3/64 dev card nodad'
address=::ffff:10.1.2.3
expect 'loopback only' : 'mooncake ::ffff:127.0.0.1 ucx ::ffff:127.0.0.1 nccl ::ffff:127.0.0.1 nccl6 ::1'
expect IPv4 "$up; $v4" "mooncake $address ucx $address nccl $address nccl6 ::1"
expect 'IPv4 and link-local IPv6' "$up; $local6; $v4" "mooncake $address ucx $address nccl $address nccl6 fe80::3"
expect 'IPv4 and IPv6' "$up; $local6; $v6; $v4" "mooncake $address ucx $address nccl $address nccl6 fd01::3"
# NCCL needs NCCL_IB_ADDR_FAMILY=AF_INET6 here: it prefers any address of the family.
expect IPv6 "$up; $local6; $v6" 'mooncake fd01::3 ucx fd01::3 nccl ::ffff:127.0.0.1 nccl6 fd01::3'
exit $((failures > 0))
