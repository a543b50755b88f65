// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"

#define SUITES(SUITE)                                                                                                  \
    SUITE(arguments)                                                                                                   \
    SUITE(strings)                                                                                                     \
    SUITE(log)                                                                                                         \
    SUITE(default_log)                                                                                                 \
    SUITE(utils)                                                                                                       \
    SUITE(peer_cfg)                                                                                                    \
    SUITE(peer)                                                                                                        \
    SUITE(mr)                                                                                                          \
    SUITE(descriptor)                                                                                                  \
    SUITE(conn_cfg)                                                                                                    \
    SUITE(srq_cfg)                                                                                                     \
    SUITE(srq)                                                                                                         \
    SUITE(ep)                                                                                                          \
    SUITE(conn_req)                                                                                                    \
    SUITE(private_data)                                                                                                \
    SUITE(conn)                                                                                                        \
    SUITE(ending)                                                                                                      \
    SUITE(operation)                                                                                                   \
    SUITE(batch)                                                                                                       \
    SUITE(counters)                                                                                                    \
    SUITE(range)                                                                                                       \
    SUITE(failure)                                                                                                     \
    SUITE(order)                                                                                                       \
    SUITE(flush)                                                                                                       \
    SUITE(native_flush)                                                                                                \
    SUITE(message)                                                                                                     \
    SUITE(cq)                                                                                                          \
    SUITE(shared_channel)                                                                                              \
    SUITE(error_number)                                                                                                \
    SUITE(thread)

#define DECLARE(name) extern struct suite name##_suite;
SUITES(DECLARE)

#define ADDRESS(name) &name##_suite,
const struct suite *const suites[] = {SUITES(ADDRESS) NULL};
