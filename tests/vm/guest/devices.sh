# SPDX-License-Identifier: BSD-3-Clause
# Functions that create the devices of a guest. RPMA_VM_RXE and RPMA_VM_PMEM are the options of `run`; RPMA_VM_GUEST is
# 1 or 2, RPMA_VM_SOFTRDMA the one that has softrdma, if any.

complain() {
    echo "$1"
    return 1
}

set_up_rdma() {
    ip link set lo up
    case $RPMA_VM_RXE in
    none) return 0 ;;
    dummy)
        ip link add rdma0 type dummy
        ;;
    two-guests)
        ip link set eth0 name rdma0
        ;;
    esac
    ip link set rdma0 mtu 4500 up && ip addr add "192.168.77.$RPMA_VM_GUEST/24" dev rdma0 &&
        ip addr add "fd77::$RPMA_VM_GUEST/64" dev rdma0 nodad || return 1
    if [ "${RPMA_VM_SOFTRDMA-}" = "$RPMA_VM_GUEST" ]; then
        export RPMA_TEST_ADDR="192.168.77.$RPMA_VM_GUEST" SOFTRDMA_TRANSPORT=roce PATH="/build/device/bin:$PATH"
        launcher="softrdma run --"
        # The module has the UDP port even without a device.
        rmmod rdma_rxe && lose_packets
        return
    fi
    rdma link add rxe0 type rxe netdev rdma0 || return 1
    # The port and the addresses of the device become ready asynchronously.
    for _ in $(seq 100); do
        if rdma link show rxe0/1 | grep -q ACTIVE &&
            grep -qs 'ffff:c0a8' /sys/class/infiniband/rxe0/ports/1/gids/*; then
            export RPMA_TEST_ADDR="192.168.77.$RPMA_VM_GUEST" RPMA_TEST_ENDLESS_RETRIES=1 RPMA_TEST_DEADLINE_S=60
            lose_packets
            return
        fi
        sleep 0.05
    done
    complain "rxe0 did not become active: $(rdma link show)"
}

lose_packets() {
    [ "$RPMA_VM_LOSS_PERCENT" -eq 0 ] || tc qdisc add dev rdma0 root netem loss "$RPMA_VM_LOSS_PERCENT%"
}

# Keeps the content that an earlier guest left in the memory.
make_device_dax() {
    [ -e /dev/dax0.0 ] || ndctl create-namespace -f -e namespace0.0 -m devdax -M mem -a 4k >>/tmp/ndctl.log 2>&1
}

mount_pmem() {
    mkdir -p /mnt/pmem && mount -o dax=always "/dev/pmem$1" /mnt/pmem >>/tmp/ndctl.log 2>&1
}

# Uses the memory with the number $1.
make_file_system() {
    mount_pmem "$1" || {
        ndctl create-namespace -f -e "namespace$1.0" -m fsdax -M mem >>/tmp/ndctl.log 2>&1 &&
            mkfs.ext4 -q -b 4096 "/dev/pmem$1" &&
            mount_pmem "$1"
    }
}

set_up_memory() {
    case $RPMA_VM_PMEM in
    none) return 0 ;;
    devdax)
        make_device_dax && export RPMA_VM_PMEM_PATH=/dev/dax0.0 RPMA_TEST_PMEM=/dev/dax0.0
        ;;
    fsdax)
        make_file_system 0 && export RPMA_VM_PMEM_PATH=/mnt/pmem RPMA_TEST_PMEM=/mnt/pmem
        ;;
    both)
        make_device_dax && make_file_system 1 && export RPMA_VM_PMEM_PATH=/mnt/pmem RPMA_VM_DAX_PATH=/dev/dax0.0
        ;;
    esac || complain "no $RPMA_VM_PMEM: $(cat /tmp/ndctl.log; ndctl list -RNi)"
}

wait_for_peer() {
    [ "$RPMA_VM_RXE:$RPMA_VM_GUEST" = two-guests:1 ] || return 0
    for _ in $(seq 1000); do # the host reboots both guests long before
        /source/tests/vm/guest/on-peer true >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    complain "the second guest does not answer"
}
