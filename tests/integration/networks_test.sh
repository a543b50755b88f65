#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: networks_test.sh TWO_NAMESPACES COMMAND...
# Runs a program of these tests with its servers in another network namespace, as on another machine.
two_namespaces=$1
. "$two_namespaces"
shift
trap 'kill $peer' EXIT
RPMA_TEST_ADDR=$address RPMA_TEST_SERVER_NETWORK=/proc/$peer/ns/net "$@"
