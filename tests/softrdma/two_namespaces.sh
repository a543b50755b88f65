# SPDX-License-Identifier: BSD-3-Clause
# A script sources this file with its arguments. The rest of the script then runs in a new network namespace, connected
# to another one by a veth pair. Sets at_server (prefix of commands in the other namespace), its address and address6,
# and peer, a process that the script must kill. Exits with 77 without permission to create namespaces.
if [ -z "$TEST_OWN_NETWORK" ]; then
    unshare -rn ip link set lo up 2>/dev/null || { echo "skipped: no network namespace can be created here"; exit 77; }
    TEST_OWN_NETWORK=1 exec unshare -rn sh "$0" "$@"
fi
export SOFTRDMA_TRANSPORT=tcp # both namespaces are on one host
unshare -nu sh -c "hostname there && exec sleep 1000" &
peer=$!
address=10.77.0.2 address6=fd77::2 at_server="nsenter -t $peer -n -u --"
tries=0
while [ "$(readlink /proc/$peer/ns/net)" = "$(readlink /proc/self/ns/net)" ] && [ $tries -lt 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
ip link set lo up && ip link add here type veth peer name there netns $peer &&
    ip address add 10.77.0.1/24 dev here && ip -6 address add fd77::1/64 dev here nodad &&
    ip link set here up &&
    $at_server sh -c "ip link set lo up && ip address add $address/24 dev there &&
        ip -6 address add $address6/64 dev there nodad && ip link set there up" ||
    { kill $peer; echo "skipped: the namespaces cannot be joined here"; exit 77; }
