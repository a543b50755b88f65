// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

// NULL for the parameter is rejected before any other argument is checked. conformance.coverage fails for a pointer
// parameter that has no line here or in null_arguments.def.
#define REFUSED(function, parameter, ...) assert_int_equal(function(__VA_ARGS__), RPMA_E_INVAL)

// rpma-conformance has the same list for the functions that are older than librpma 1.4.
TEST(null_is_refused)
{
    static const char word[8];
#define NULL_ARGUMENT(function, parameter, ...) REFUSED(function, parameter, __VA_ARGS__);
#include "../conformance/cases/null_arguments.def"
#undef NULL_ARGUMENT
    struct rpma_conn_req *none = NULL;
    REFUSED(rpma_conn_req_connect, req_ptr, &none, BOGUS, BOGUS);
    REFUSED(rpma_utils_get_ibv_context_by_kind, addr, NULL, RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_ANY, BOGUS);
    REFUSED(rpma_utils_get_ibv_context_by_kind, ibv_ctx_ptr, BOGUS, RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_ANY, NULL);
    REFUSED(rpma_utils_ibv_context_get_kind, ibv_ctx, NULL, BOGUS);
    REFUSED(rpma_utils_ibv_context_get_kind, kind, BOGUS, NULL);
    REFUSED(rpma_conn_get_counters, conn, NULL, BOGUS, 8);
    REFUSED(rpma_conn_get_counters, counters, BOGUS, NULL, 8);
    REFUSED(rpma_conn_get_native_flush, conn, NULL, BOGUS);
    REFUSED(rpma_conn_get_native_flush, native, BOGUS, NULL);
    REFUSED(rpma_mr_get_native_flush_type, mr, NULL, BOGUS);
    REFUSED(rpma_mr_get_native_flush_type, flush_type, BOGUS, NULL);
    REFUSED(rpma_conn_submit, conn, NULL);
}
