#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: message_passing_test.sh SOFTRDMA PATH IMPLEMENTATION [ADDRESS AT_OTHER]: with its default
# transport and restricted to the device, with 2 and 4 ranks, and with one that is killed. IMPLEMENTATION: openmpi, mpich or
# openshmem (that of Open MPI). Half of the ranks run on the host that has the address, where AT_OTHER runs its
# arguments; the default is this host.
softrdma=$1
export SOFTRDMA_TRANSPORT="$2" SOFTRDMA_LOG=warn
open_mpi='--allow-run-as-root --oversubscribe'
case $3 in
openmpi) compiler=mpicc.openmpi source=message_passing.c starter="mpirun.openmpi $open_mpi" layers='libfabric ucx datagrams defaults' ;;
mpich) compiler=mpicc.mpich source=message_passing.c starter=mpiexec.mpich layers='ucx datagrams defaults' ;;
# At exit, Debian's Open MPI (4.1.4) calls a function that it has unloaded, with and without the device, unless this
# component is excluded.
openshmem) compiler=oshcc source=openshmem.c starter="oshrun $open_mpi --mca osc ^rdma" layers='ucx datagrams defaults' ;;
*)
    echo "message_passing_test.sh: there are openmpi, mpich and openshmem, and no '$3'" >&2
    exit 2
    ;;
esac
. "$(dirname "$0")/script_lib.sh"
for program in $compiler ${starter%% *}; do
    command -v $program >/dev/null || skip "$program is not installed"
done
make_work
export TMPDIR="$work" # where Open MPI creates a directory of sessions: two tests at a time failed to create the same one
if [ -n "$5" ]; then
    # Replacement for ssh: the arguments are options, a host, and a command for the shell there.
    printf '#!/bin/sh\nwhile [ "$1" != %s ]; do shift; done\nshift\nexec %s sh -c "$*"\n' "$4" "$5" >"$work/shell"
    chmod +x "$work/shell"
    export SOFTRDMA_LOOPBACK=wildcard # see softrdma(1)
    case $3 in
    mpich) starter="$starter -launcher ssh -launcher-exec $work/shell -hosts 10.77.0.1,$4 -ppn 1" ;;
    *) starter="$starter --mca plm_rsh_agent $work/shell --host $(hostname):2,$4:2 --map-by node" ;;
    esac
    # Windows between hosts fail in Debian's 4.1.4 on any network, except those that use messages.
    [ $3 != openmpi ] || starter="$starter --mca osc pt2pt"
fi
$compiler -Wall -Wextra -Werror -O1 -o "$work/program" "$(dirname "$0")/$source" || exit 1

# run LAYER RANKS ARGUMENT...
run() {
    layer=$1 ranks=$2 choice=
    shift 2
    unset UCX_TLS
    case $layer in
    libfabric) choice='--mca btl ^openib,vader,tcp --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm' ;;
    ucx) UCX_TLS=rc,ud,self ;;
    datagrams) UCX_TLS=ud ;;
    esac
    if [ -n "$UCX_TLS" ]; then
        export UCX_TLS
        [ "${starter%% *}" != mpirun.openmpi ] || choice='--mca pml ucx --mca btl ^openib,vader,tcp'
    fi
    timeout -k 5 300 "$softrdma" run -- $starter $choice -n $ranks "$work/program" "$@" >"$work/out" 2>&1
    code=$?
}

fail() {
    echo "FAILED: $*; output:"
    cat "$work/out"
    exit 1
}

for each in $layers; do
    for ranks in 2 4; do
        run $each $ranks
        [ $code -eq 0 ] && grep -qx "$ranks ranks have agreed" "$work/out" || fail "$each, $ranks ranks: exit code $code"
        ! grep -Eq 'ERROR|protocol violation' "$work/out" || fail "$each, $ranks ranks: not without an error"
    done
done
for each in $layers; do
    [ $each != datagrams ] || continue # who sends them waits for their answers, up to minutes
    run $each 4 kill
    [ $code -ne 0 ] && grep -Eqi 'signal 9|EXIT CODE: 9' "$work/out" || fail "$each, with a rank killed: exit code $code"
done
