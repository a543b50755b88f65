// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(utils);

#define UNTOUCHED ((struct ibv_context *)(uintptr_t)64)

static void refused(const char *addr, enum rpma_util_ibv_context_type type, int expected)
{
    struct ibv_context *context = UNTOUCHED;
    assert_rpma(rpma_utils_get_ibv_context(addr, type, &context), expected);
    assert_ptr_equal(context, UNTOUCHED);
}

CASE(the_device_of_a_local_address_is_found)
{
    assert_non_null(device()->device);
    assert_true(*ibv_get_device_name(device()->device) != '\0');
}

CASE(the_device_towards_a_remote_address_is_found)
{
    struct ibv_context *context = NULL;
    assert_done(rpma_utils_get_ibv_context(case_address, RPMA_UTIL_IBV_CONTEXT_REMOTE, &context));
    assert_non_null(context);
}

CASE(an_address_always_has_the_same_device)
{
    struct ibv_context *first = device();
    struct rpma_peer *peer = new_peer();
    assert_non_null(peer);
    assert_ptr_equal(device(), first);
}

CASE(an_unknown_type_is_refused)
{
    refused(case_address, (enum rpma_util_ibv_context_type)2, RPMA_E_INVAL);
    refused(case_address, (enum rpma_util_ibv_context_type) - 1, RPMA_E_INVAL);
}

CALL_CASE(text_that_is_no_address_is_a_provider_error,
        refused("no such host!", RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_E_PROVIDER));

CASE(an_empty_address_is_refused)
{
    struct ibv_context *context = UNTOUCHED;
    int result = rpma_utils_get_ibv_context("", RPMA_UTIL_IBV_CONTEXT_REMOTE, &context);
    assert_true(result == RPMA_E_PROVIDER || result == RPMA_E_INVAL);
    assert_ptr_equal(context, UNTOUCHED);
}

CALL_CASE(an_address_of_another_machine_is_not_local,
        refused("192.0.2.1" /* documentation only, no machine has it */, RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_E_PROVIDER));
CALL_CASE(the_ipv4_wildcard_names_no_device, refused("0.0.0.0", RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_E_PROVIDER));
CALL_CASE(the_ipv6_wildcard_names_no_device, refused("::", RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_E_PROVIDER));

CASE(the_support_of_on_demand_paging_is_that_of_the_device)
{
    struct ibv_device_attr_ex attributes = device_attributes();
    uint32_t needed = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    bool capable = (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) &&
                   (attributes.odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
    int reported = -1;
    assert_done(rpma_utils_ibv_context_is_odp_capable(device(), &reported));
    assert_int_equal(reported, capable);
}

static int context_of_kind(const char *addr, enum rpma_util_ibv_context_type type, enum rpma_device_kind kind,
        struct ibv_context **context)
{
    int (*function)(const char *, enum rpma_util_ibv_context_type, enum rpma_device_kind, struct ibv_context **);
    *(void **)&function = since_1_4("rpma_utils_get_ibv_context_by_kind");
    return function(addr, type, kind, context);
}

static int kind_of(struct ibv_context *context, enum rpma_device_kind *kind)
{
    int (*function)(struct ibv_context *, enum rpma_device_kind *);
    *(void **)&function = since_1_4("rpma_utils_ibv_context_get_kind");
    return function(context, kind);
}

CASE(any_device_is_of_one_kind_or_the_other)
{
    struct ibv_context *context = NULL;
    enum rpma_device_kind kind = RPMA_DEVICE_ANY;
    assert_done(context_of_kind(case_address, RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_ANY, &context));
    assert_done(kind_of(context, &kind));
    assert_true(kind == RPMA_DEVICE_KERNEL || kind == RPMA_DEVICE_SOFTRDMA);
}

CASE(a_device_selected_by_kind_is_of_that_kind)
{
    enum rpma_device_kind kind = RPMA_DEVICE_ANY;
    assert_done(kind_of(device(), &kind));
    struct ibv_context *context = NULL;
    assert_done(context_of_kind(case_address, RPMA_UTIL_IBV_CONTEXT_LOCAL, kind, &context));
    enum rpma_device_kind found = RPMA_DEVICE_ANY;
    assert_done(kind_of(context, &found));
    assert_int_equal(found, kind);
}

CASE(an_unknown_kind_is_refused)
{
    struct ibv_context *context = UNTOUCHED;
    assert_rpma(context_of_kind(case_address, RPMA_UTIL_IBV_CONTEXT_LOCAL, (enum rpma_device_kind)3, &context),
            RPMA_E_INVAL);
    assert_ptr_equal(context, UNTOUCHED);
}
