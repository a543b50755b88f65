#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: networks_test.sh TWO_NAMESPACES TRANSPORT COMMAND...
# Runs a program of these tests with its servers in another network namespace, as on another machine.
two_namespaces=$1 transport=$2
. "$two_namespaces"
shift 2
trap 'kill $peer' EXIT
SOFTRDMA_TRANSPORT=$transport RPMA_TEST_ADDR=$address RPMA_TEST_SERVER_NETWORK=/proc/$peer/ns/net "$@"
