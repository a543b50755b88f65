#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Usage: ceph.sh [PATH [ADDRESS AT_SERVER]]
#
# Starts a monitor and an object store of Ceph on the device, and writes and reads ten objects. The command prefix
# AT_SERVER selects the host with ADDRESS; the default is this host. PATH is the transport that must be used: shm or
# tcp. Without arguments, runs on shared memory, over TCP, and between two network namespaces.
set -eu
if [ $# -eq 0 ]; then
    for path in shm tcp; do
        unshare -n sh -c 'ip link set lo up && exec sh "$@"' sh "$0" $path
    done
    # In a chroot, only root can create network namespaces.
    TEST_OWN_NETWORK=1 exec unshare -n sh "$(dirname "$0")/softrdma/across_namespaces.sh" sh "$0" tcp
fi
path=$1 address=${2-127.0.0.1} at_server=${3-}
[ "$path" = shm ] || export SOFTRDMA_TRANSPORT="$path" # shared memory is the default
work=$(mktemp -d)
daemons=
cd "$work"
trap 'kill $daemons 2>/dev/null; wait; rm -rf "$work"' EXIT

fail() {
    echo "FAILED ($path): $*"
    tail -n 40 ./*.log
    exit 1
}

# Runs a client on this host. The limit is needed because Ceph clients wait forever for a monitor.
client() {
    timeout -k 5 120 softrdma run "$@" -c "$work/conf" >client.log 2>&1 || fail "$*: status $?"
}

# Starts a daemon as a background job.
start() {
    # shellcheck disable=SC2086 # a command, or nothing
    $at_server softrdma run "$@" -f -c "$work/conf" >"$1.log" 2>&1 &
    daemons="$daemons $!"
}

fsid=$(cat /proc/sys/kernel/random/uuid)
osd=$(cat /proc/sys/kernel/random/uuid)
mkdir mon osd
# The recipe of softrdma(1), with an in-memory store and without authentication.
cat >conf <<END
[global]
ms_type = async+rdma
ms_async_rdma_device_name = softrdma0
ms_bind_msgr1 = false
mon_host = v2:$address:3300
fsid = $fsid
public_addr = $address
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
mon_data = $work/mon
mon_data_avail_crit = 0
osd_data = $work/osd
osd_objectstore = memstore
osd_pool_default_size = 1
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
run_dir = $work
log_file =
log_to_stderr = true
END
monmaptool --create --addv a "[v2:$address:3300]" --fsid "$fsid" monmap >mkfs.log
ceph-mon --mkfs -i a --monmap monmap -c conf >>mkfs.log 2>&1
start ceph-mon -i a
client ceph osd new "$osd" 0
# shellcheck disable=SC2086
$at_server timeout -k 5 120 softrdma run ceph-osd --mkfs -i 0 --osd-uuid "$osd" -c conf >>mkfs.log 2>&1 || fail "mkfs of the store"
start ceph-osd -i 0
client ceph osd pool create objects 1
for size in 1 100 4096 10000 65536 100000 131072 1000000 4194304 4194305; do
    head -c $size /dev/urandom >written
    client rados -p objects put object$size written
    client rados -p objects get object$size read
    cmp written read || fail "$size bytes: data read differs from data written"
done
# shellcheck disable=SC2086
transports=$($at_server softrdma ps "${daemons##* }" | grep -o 'transport=[a-z-]*' | sort -u | tr '\n' ' ')
[ "$transports" = "transport=$path " ] || fail "the store used $transports"
echo "ten objects over $path"
