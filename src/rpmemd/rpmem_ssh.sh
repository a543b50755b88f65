#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs ssh to each of several targets, for pmempool, which takes them for one host. The exit status is that of the first
# failed command,
# or 2 for wrong usage.
set -uf
usage="usage: rpmem-ssh [-p PORT] [OPTION...] TARGET[,TARGET...] COMMAND, in place of ssh; or --help or --version"
show() {
    echo "$1" 2>/dev/null && exit 0
    echo "rpmem-ssh: standard output: text lost" >&2
    exit 1
}
port='' options=''
while [ $# -gt 1 ]; do
    case $1 in
    -p) port=$2 && shift ;;
    -*) options="$options $1" ;;
    *) break ;;
    esac
    shift
done
case ${1-} in
-h | --help) show "$usage" ;;
--version) show "rpmem-ssh @PROJECT_VERSION@" ;;
esac
if [ $# -lt 2 ]; then
    echo "$usage" >&2
    exit 2
fi
targets=$1
shift
# pmempool splits the list at a colon and passes the rest as port.
case $port in *,*) targets=$targets:$port port='' ;; esac

# usage: run_on TARGET COMMAND [exec]; targets have the format of librpmem(7)
run_on() {
    host=$1 own_port=$port
    case $1 in
    local:)
        ${3-} sh -c "$2"
        return
        ;;
    *]:*) host=${1%:*} own_port=${1##*:} ;;
    *:*:*) ;;
    *:*) host=${1%:*} own_port=${1##*:} ;;
    esac
    # shellcheck disable=SC2086 # options are meant to be split
    ${3-} "${SSH_PROGRAM:-ssh}" ${own_port:+-p "$own_port"} $options "$(echo "$host" | tr -d '[]')" "$2"
}

case $targets in *,*) ;; *) run_on "$targets" "$*" exec ;; esac
status=0
while
    run_on "${targets%%,*}" "$*"
    result=$?
    [ "$status" -ne 0 ] || status=$result
    case $targets in *,*) ;; *) false ;; esac
do
    targets=${targets#*,}
done
exit "$status"
