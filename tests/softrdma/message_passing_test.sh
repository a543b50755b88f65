#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: message_passing_test.sh SOFTRDMA PATH: Open MPI over libfabric's provider verbs;ofi_rxm and over UCX, with 2 and 4
# ranks, and with one that is killed; and as it chooses by itself.
softrdma=$1
export SOFTRDMA_PATH="$2"
for program in mpicc mpirun; do
    if ! command -v $program >/dev/null; then
        echo "skipped: $program is not installed"
        exit 77
    fi
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mpicc -Wall -Wextra -Werror -O1 -o "$work/program" "$(dirname "$0")/message_passing.c" || exit 1

# run LAYER RANKS ARGUMENT...: unless it chooses by itself, nothing but the device can carry what it sends.
run() {
    unset UCX_TLS
    case $1 in
    libfabric) choice='--mca btl ^openib,vader,tcp --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm' ;;
    ucx) choice='--mca pml ucx --mca btl ^openib,vader,tcp' UCX_TLS=rc,ud,self ;;
    datagrams) choice='--mca pml ucx --mca btl ^openib,vader,tcp' UCX_TLS=ud ;;
    defaults) choice= ;;
    esac
    [ -z "$UCX_TLS" ] || export UCX_TLS
    ranks=$2
    shift 2
    timeout -k 5 300 "$softrdma" run -- mpirun --allow-run-as-root --oversubscribe $choice -np $ranks "$work/program" "$@" \
        >"$work/out" 2>&1
    code=$?
}

fail() {
    echo "FAILED: $*; the program said:"
    cat "$work/out"
    exit 1
}

for layer in libfabric ucx datagrams defaults; do
    for ranks in 2 4; do
        run $layer $ranks
        [ $code -eq 0 ] && grep -qx "$ranks ranks have agreed" "$work/out" || fail "$layer, $ranks ranks: exit code $code"
    done
done
for layer in libfabric ucx; do
    run $layer 4 kill
    [ $code -eq 137 ] && grep -q 'exited on signal 9' "$work/out" || fail "$layer, with a rank killed: exit code $code"
done
