# SPDX-License-Identifier: BSD-3-Clause
# usage: across_namespaces.sh COMMAND...: runs a command in one of two network namespaces that a cable joins, with two
# arguments more: the address of the other one, and the command that runs its arguments there.
. "$(dirname "$0")/two_namespaces.sh"
trap 'kill $peer' EXIT
"$@" "$address" "$at_server"
