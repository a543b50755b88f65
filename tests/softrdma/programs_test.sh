#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: programs_test.sh SOFTRDMA LANE GROUP
# Runs unmodified programs, a client and a server each, on the device. LANE: loopback (TCP), local (shared memory), netns
# (two network namespaces joined by a veth pair) or roce (like netns, with RoCE). GROUP: manager, pingpong, lid, perftest,
# perftest_manager, fio, ucx or others.
softrdma=$1 lane=$2 group=$3
here=$(dirname "$0")
. "$here/script_lib.sh"
ran=0
server=
peer=
fixed_port=

at_server= address=127.0.0.1 address6=::1
case $lane in
loopback) export SOFTRDMA_TRANSPORT=tcp ;;
local) export SOFTRDMA_TRANSPORT=shm ;;
netns) . "$here/two_namespaces.sh" ;;
roce)
    . "$here/two_namespaces.sh"
    export SOFTRDMA_TRANSPORT=roce
    ;;
*)
    echo "programs_test.sh: unknown lane '$lane' (use loopback, local, netns or roce)" >&2
    exit 2
    ;;
esac

make_work
trap '[ -n "$server" ] && kill $server 2>/dev/null; [ -n "$peer" ] && kill $peer 2>/dev/null; rm -rf "$work"' EXIT

. "$here/programs_lib.sh"

manager_programs() {
    alone ibv_devices
    alone ibv_devinfo -v
    both rping -s -a %a -p %p -C 20 -V // rping -c -a %a -p %p -C 20 -V
    both rping -s -a %6 -p %p -C 5 -V -S 60000 // rping -c -a %6 -p %p -C 5 -V -S 60000
    both rping -s -a %a -p %p -C 50 -V -q // rping -c -v -a %a -p %p -C 50 -V -q
    both ucmatose -b %a -p %p -c 8 -C 30 -S 8192 // ucmatose -s %a -p %p -c 8 -C 30 -S 8192
    both ucmatose -b %a -p %p -m // ucmatose -s %a -p %p -m
    for round in 1 2 3 4 5; do
        both rdma_server -s %a -p %p // rdma_client -s %a -p %p
    done
    [ "$lane" = roce ] || refuses_multicast mckey -b "$address" -m 239.1.1.1
    # The port of udaddy is fixed, so another test on this host could use it.
    if [ "$lane" = netns ] || [ "$lane" = roce ]; then
        fixed_port=7174
        size=2000
        [ "$lane" = roce ] && size=1000 # a datagram is one packet
        both udaddy -b %a -c 3 -C 20 -S $size // udaddy -s %a -c 3 -C 20 -S $size
        fixed_port=
    fi
    both rdma_xserver -p %p // rdma_xclient -s %a -p %p
    both rstream -b %a -p %p -S 4096 -C 100 // rstream -s %a -p %p -S 4096 -C 100
    # Later releases end, connect numbers of no queue pair, and listen at the TCP port of the same number.
    if cmtime -h 2>&1 | grep -q base_qpn; then
        cmtime=cmtime
        [ "$lane" = roce ] || cmtime="env SOFTRDMA_PORT_OFFSET=-1000 cmtime"
        both $cmtime -b %a -p %p -c 20 // $cmtime -s %a -p %p -c 20
    else
        serving cmtime -b %a -p %p // cmtime -s %a -p %p -c 20
    fi
}

refuses_multicast() {
    have "$1" || return
    ran=$((ran + 1))
    $at_server timeout -k 2 "$limit" "$softrdma" run "$@" >"$work/alone.out" 2>&1
    code=$?
    # Without a route to the group, the program fails before it joins.
    grep -Eq 'failure joining: Operation not supported|RDMA_CM_EVENT_ADDR_ERROR' "$work/alone.out" && [ $code -ne 0 ] || report "$@: $code"
    end_if_hung $code
}

# DAPL's own test, over the connection manager.
dapl_programs() {
    have dtest || return
    for own in "$address" 10.77.0.1; do
        echo "softrdma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"$own 0\" \"\"" >"$work/$own"
    done
    fixed_port=45248
    both env DAT_OVERRIDE="$work/$address" dtest -P softrdma -D -b 4096 // \
        env DAT_OVERRIDE="$work/10.77.0.1" dtest -P softrdma -D -b 4096 -h %a
    fixed_port=
}

pingpong_programs() {
    both ibv_rc_pingpong -n 100 -p %p -g 0 // ibv_rc_pingpong -n 100 -p %p -g 0 %a
    both ibv_rc_pingpong -n 100 -p %p -g 0 -e // ibv_rc_pingpong -n 100 -p %p -g 0 -e %a
    both ibv_rc_pingpong -n 100 -p %p -g 0 -N // ibv_rc_pingpong -n 100 -p %p -g 0 -N %a
    mtu=4096
    [ "$lane" = roce ] && mtu=1024 # that of the cable permits no more
    both ibv_rc_pingpong -n 100 -p %p -g 1 -s 100000 -m $mtu -c // ibv_rc_pingpong -n 100 -p %p -g 1 -s 100000 -m $mtu -c %a
    both ibv_srq_pingpong -n 100 -p %p -g 0 // ibv_srq_pingpong -n 100 -p %p -g 0 %a
    both ibv_srq_pingpong -n 100 -p %p -g 0 -e -q 40 // ibv_srq_pingpong -n 100 -p %p -g 0 -e -q 40 %a
    both ibv_ud_pingpong -n 100 -p %p -g 0 // ibv_ud_pingpong -n 100 -p %p -g 0 %a
    both ibv_ud_pingpong -n 100 -p %p -g 0 -e // ibv_ud_pingpong -n 100 -p %p -g 0 -e %a
    [ "$lane" = netns ] || [ "$lane" = roce ] && return
    both ibv_rc_pingpong -n 100 -p %p // ibv_rc_pingpong -n 100 -p %p %a
    both ibv_srq_pingpong -n 100 -p %p // ibv_srq_pingpong -n 100 -p %p %a
}

# These programs address the peer by LID, without a GID.
lid_programs() {
    export SOFTRDMA_LINK=infiniband
    for program in ibv_rc_pingpong ibv_srq_pingpong ibv_ud_pingpong ib_write_bw ib_read_lat 'ib_send_lat -c UD'; do
        both $program -n 100 -p %p // $program -n 100 -p %p %a
    done
    serving qperf -lp %p // qperf -lp %p %a -t 1 ud_lat
    unset SOFTRDMA_LINK
}

# perftest_of OPTIONS
perftest_of() {
    for program in ib_write_lat ib_read_lat ib_send_lat ib_write_bw ib_read_bw ib_send_bw; do
        both $program "$@" -p %p -n 50 // $program "$@" -p %p -n 50 %a
    done
    for program in ib_send_lat ib_send_bw; do
        both $program "$@" -e -p %p -n 50 // $program "$@" -e -p %p -n 50 %a
        both $program "$@" --use-srq -p %p -n 50 // $program "$@" --use-srq -p %p -n 50 %a
    done
}

perftest_programs() {
    perftest_of
    connections=300
    [ "$lane" = roce ] && connections=20
    both ib_send_bw -q $connections -p %p -n 20 // ib_send_bw -q $connections -p %p -n 20 %a
    both ib_write_bw -a -p %p -n 50 // ib_write_bw -a -p %p -n 50 %a
    both ib_atomic_lat -p %p -n 50 // ib_atomic_lat -p %p -n 50 %a
    both ib_atomic_bw -A FETCH_AND_ADD -p %p -n 50 // ib_atomic_bw -A FETCH_AND_ADD -p %p -n 50 %a
    both ib_send_lat -c UD -p %p -n 100 // ib_send_lat -c UD -p %p -n 100 %a
    both ib_send_bw -c UD -p %p -n 50 // ib_send_bw -c UD -p %p -n 50 %a
    both ib_send_bw -c UD -b -p %p -n 50 // ib_send_bw -c UD -b -p %p -n 50 %a
    both ib_send_lat --ipv6 -p %p -n 100 // ib_send_lat --ipv6 -p %p -n 100 %a
}

perftest_manager_programs() {
    perftest_of -R
}

# The engine of fio sets rnr_retry_count to 0, so at most the receives posted initially can be used.
fio_programs() {
    options='--ioengine=rdma --bs=64k --size=2m'
    for verb in write read send; do
        both fio --name=s $options --port=%p --rw=read --iodepth=32 // \
            fio --name=c $options --hostname=%a --port=%p --rw=write --iodepth=4 --verb=$verb
    done
}

# qperf creates address handles without a GID.
qperf_datagrams_are_refused() {
    have qperf || return
    export SOFTRDMA_LOG=info
    run_pair qperf -lp %p // qperf -lp %p %a -t 1 ud_lat
    unset SOFTRDMA_LOG
    kill $server 2>/dev/null
    wait $server 2>/dev/null
    server=
    grep -q 'an address handle needs a GID' "$work"/*.out && [ $client_code -ne 0 ] || report "$text: client $client_code"
    end_if_hung $client_code
}

# A sockets program over rsockets.
rsocket_programs() {
    have iperf3 || return
    library=$(ldconfig -p | sed -n 's:.* => \(.*\)/librdmacm\.so\.1$:\1/rsocket/librspreload.so:p' | head -n 1)
    [ -e "$library" ] || { echo "skipped: librspreload is not installed"; return; }
    cat >"$work/over_rsockets" <<SCRIPT
#!/bin/sh
export LD_PRELOAD="\$LD_PRELOAD:$library"
grep -q /librspreload /proc/self/maps && exec "\$@"
SCRIPT
    chmod +x "$work/over_rsockets"
    both "$work/over_rsockets" iperf3 -s -1 -p %p // "$work/over_rsockets" iperf3 -c %a -p %p -n 20M
}

ucx_programs() {
    both ucx_perftest -p %p // ucx_perftest -p %p -t tag_lat -n 500 %a
    both ucx_perftest -p %p // ucx_perftest -p %p -x rc_verbs -d softrdma0:1 -t am_lat -n 500 %a
    both ucx_perftest -p %p // ucx_perftest -p %p -x ud_verbs -d softrdma0:1 -t am_lat -n 500 %a
    export UCX_TLS=ud
    both ucx_perftest -p %p // ucx_perftest -p %p -t tag_lat -n 500 %a
    unset UCX_TLS
}

others_programs() {
    rsocket_programs
    qperf_datagrams_are_refused
    for mode in '' '-cm 1'; do
        serving qperf -lp %p // qperf -lp %p %a -t 1 $mode rc_lat rc_bw rc_rdma_write_lat rc_rdma_write_poll_lat \
            rc_rdma_write_bw rc_rdma_read_lat rc_rdma_read_bw
    done
    if [ "$lane" = netns ]; then
        dapl_programs
        have fi_pingpong || return
        fi_pingpong="env SOFTRDMA_LOOPBACK=wildcard fi_pingpong -I 100"
        for mode in 'verbs -e msg' 'verbs;ofi_rxm -e rdm'; do
            both $fi_pingpong -p $mode -B %p // $fi_pingpong -p $mode -P %p %a
        done
    else
        both fi_pingpong -p verbs -e msg -I 100 -B %p // fi_pingpong -p verbs -e msg -I 100 -P %p %a
    fi
}

"${group}_programs"
if [ $ran -eq 0 ]; then
    exit 77
fi
echo "$ran runs, $failures failures"
exit $((failures > 0))
