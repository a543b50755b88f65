#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: gloo_test.sh SOFTRDMA PATH [ADDRESS AT_OTHER]: 2 and 4 processes add up vectors over Gloo's transport for verbs.
# Every other one is started by AT_OTHER, a command that runs its arguments on another host.
softrdma=$1
export SOFTRDMA_TRANSPORT="$2"
at_other=$4
. "$(dirname "$0")/script_lib.sh"
[ -e /usr/include/gloo/transport/ibverbs/device.h ] || skip "libgloo-dev is not installed"
make_work
# Its headers leave arguments unused.
c++ -std=c++17 -Wall -Werror -O1 -o "$work/gloo" "$(dirname "$0")/gloo.cpp" -lgloo || exit 1
for ranks in 2 4; do
    mkdir "$work/$ranks"
    started=
    for rank in $(seq 0 $((ranks - 1))); do
        [ $((rank % 2)) -eq 1 ] && there=$at_other || there=
        $there timeout -k 5 300 "$softrdma" run "$work/gloo" "$work/$ranks" "$rank" $ranks >"$work/out.$rank" 2>&1 &
        started="$started $!"
    done
    good=0
    for process in $started; do
        wait "$process" && good=$((good + 1))
    done
    if [ $good -ne $ranks ] || [ "$(grep -c 'has the sums' "$work"/out.* | grep -c ':1$')" -ne $ranks ]; then
        echo "FAILED: $good of $ranks ranks; output:"
        cat "$work"/out.*
        exit 1
    fi
done
