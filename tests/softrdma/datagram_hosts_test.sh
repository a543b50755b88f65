# SPDX-License-Identifier: BSD-3-Clause
# Three hosts: this one and the server's, joined by a cable, and a third one, joined to the server's.
# usage: datagram_hosts_test.sh TWO_NAMESPACES LAUNCHER COMMAND...
. "$(dirname "$0")/script_lib.sh"
. "$1"
shift
unshare -n sleep 1000 &
stranger=$!
trap 'kill $peer $stranger' EXIT
await eval '[ "$(readlink /proc/$stranger/ns/net)" != "$(readlink /proc/self/ns/net)" ]'
in_third="nsenter -t $stranger -n --"
$at_server ip link add back type veth peer name out netns $stranger &&
    $at_server sh -c 'ip address add 10.78.0.2/24 dev back && ip link set back up' &&
    $in_third sh -c 'ip address add 10.78.0.1/24 dev out && ip link set out up' || exit 1
launcher=$1
shift
"$@" "$launcher" /proc/$peer/ns/net /proc/$stranger/ns/net
