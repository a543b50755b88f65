// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <stdlib.h>

static const enum rpma_util_ibv_context_type both[] = {RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_UTIL_IBV_CONTEXT_REMOTE};

static struct ibv_context *found;

static int unchanged_on_error(int code)
{
    if (code != 0)
        assert_ptr_equal(found, BOGUS);
    return code;
}

// Store the device of an address in `found`, and check that an error leaves the output alone.
static int find(const char *address, enum rpma_util_ibv_context_type type)
{
    found = BOGUS;
    return unchanged_on_error(rpma_utils_get_ibv_context(address, type, &found));
}

static int find_kind(enum rpma_device_kind kind)
{
    found = BOGUS;
    return unchanged_on_error(rpma_utils_get_ibv_context_by_kind("here", RPMA_UTIL_IBV_CONTEXT_LOCAL, kind, &found));
}

TEST(a_local_address_is_bound)
{
    assert_done(find("here", RPMA_UTIL_IBV_CONTEXT_LOCAL));
    assert_ptr_equal(found, fake_context());
    assert_calls("rdma_getaddrinfo rdma_create_id rdma_bind_addr rdma_destroy_id rdma_freeaddrinfo");
    assert_string_equal(fake_seen()->node, "here");
    assert_string_equal(fake_seen()->service, "");
    assert_int_equal(fake_seen()->hints.ai_flags, RAI_PASSIVE);
    assert_int_equal(fake_seen()->hints.ai_family, 0);
    assert_int_equal(fake_seen()->hints.ai_qp_type, IBV_QPT_RC);
    assert_int_equal(fake_seen()->hints.ai_port_space, RDMA_PS_TCP);
}

TEST(a_remote_address_is_resolved)
{
    assert_int_equal(find("there", RPMA_UTIL_IBV_CONTEXT_REMOTE), 0);
    assert_ptr_equal(found, fake_context());
    assert_calls("rdma_getaddrinfo rdma_create_id rdma_resolve_addr rdma_destroy_id rdma_freeaddrinfo");
    assert_int_equal(fake_seen()->hints.ai_flags, 0);
    assert_int_equal(fake_seen()->resolve_addr_timeout_ms, 1000);
}

TEST(a_wildcard_address_names_no_device)
{
    const char *const addresses[] = {"0.0.0.0", "::"};
    for (int v6 = 0; v6 < 2; ++v6)
        for (int i = 0; i < 2; ++i) {
            fake_device()->ipv6 = v6 == 1;
            assert_provider(find(addresses[v6], both[i]), ENODEV);
        }
    assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 4);
}

TEST(every_resolved_address_is_tried)
{
    fake_device()->addresses = 3;
    fake_device()->bad_addresses = 2;
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(find("here", both[i]), 0);
        assert_ptr_equal(found, fake_context());
    }
}

TEST(the_first_error_counts_when_no_address_works)
{
    const int errors[] = {EADDRNOTAVAIL, EHOSTUNREACH};
    fake_device()->addresses = 3;
    fake_device()->bad_addresses = 3;
    for (int i = 0; i < 2; ++i)
        assert_provider(find("here", both[i]), errors[i]);
}

TEST(failed_addresses_are_logged_in_numbers)
{
    fake_device()->bad_addresses = 1;
    assert_provider(find("here", RPMA_UTIL_IBV_CONTEXT_LOCAL), EADDRNOTAVAIL);
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), "192.0.2.0"));
    fake_device()->ipv6 = true;
    assert_provider(find("here", RPMA_UTIL_IBV_CONTEXT_REMOTE), EHOSTUNREACH);
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), "2001:db8::"));
    assert_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), "null"));
}

TEST(a_name_that_does_not_resolve_is_a_provider_error)
{
    fake_device()->name_error = EAI_NONAME;
    assert_int_equal(find("nowhere", RPMA_UTIL_IBV_CONTEXT_LOCAL), RPMA_E_PROVIDER);
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), gai_strerror(EAI_NONAME)));

    const struct {
        int resolver;
        int error;
    } cases[] = {{EAI_NONAME, ENXIO}, {EAI_FAIL, ENXIO}, {EAI_SERVICE, EPROTONOSUPPORT}, {EAI_AGAIN, EAGAIN},
            {EAI_MEMORY, ENOMEM}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        fake_device()->name_error = cases[i].resolver;
        assert_provider(find("nowhere", RPMA_UTIL_IBV_CONTEXT_LOCAL), cases[i].error);
    }

    fake_device()->name_error = EAI_SYSTEM;
    errno = ENFILE;
    assert_int_equal(find("nowhere", RPMA_UTIL_IBV_CONTEXT_LOCAL), RPMA_E_PROVIDER);
    assert_int_equal(errno, ENFILE);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 7);
}

TEST(on_demand_paging_needs_reads_and_writes)
{
    const struct {
        uint64_t general;
        uint32_t rc;
        int capable;
    } rows[] = {
            {0, 0, 0},
            {0, IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ, 0},
            {IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_WRITE, 0},
            {IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_READ, 0},
            {IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ, 1},
            {IBV_ODP_SUPPORT, ~0U, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        fake_device()->odp_general = rows[i].general;
        fake_device()->odp_rc = rows[i].rc;
        int capable = -1;
        assert_done(rpma_utils_ibv_context_is_odp_capable(fake_context(), &capable));
        assert_int_equal(capable, rows[i].capable);
    }
}

TEST(a_device_that_cannot_be_queried_is_a_provider_error)
{
    int capable = -1;
    fake_fail_call(1, EIO, false);
    assert_provider(rpma_utils_ibv_context_is_odp_capable(fake_context(), &capable), EIO);
    assert_int_equal(capable, -1);
}

static void expect_device_of(enum rpma_device_kind kind)
{
    assert_int_equal(find_kind(kind), 0);
    assert_ptr_equal(found, fake_context());
}

TEST(an_rdma_device_is_hardware)
{
    enum rpma_device_kind kind = RPMA_DEVICE_ANY;
    expect_device_of(RPMA_DEVICE_KERNEL);
    expect_device_of(RPMA_DEVICE_ANY);
    assert_int_equal(rpma_utils_ibv_context_get_kind(fake_context(), &kind), 0);
    assert_int_equal(kind, RPMA_DEVICE_KERNEL);
}

TEST(without_an_rdma_device_there_is_no_hardware)
{
    fake_device()->absent = true;
    assert_provider(find_kind(RPMA_DEVICE_KERNEL), ENODEV);
    assert_calls("ibv_get_device_list ibv_free_device_list");
}

TEST(a_lack_of_descriptors_is_no_missing_device)
{
    for (int kind = RPMA_DEVICE_ANY; kind <= RPMA_DEVICE_SOFTRDMA; ++kind) {
        fake_fail_call(1, EMFILE, true);
        assert_provider(find_kind((enum rpma_device_kind)kind), EMFILE);
        fake_fail_call(0, 0, false);
    }
}

TEST(unknown_kinds_and_types_are_refused)
{
    assert_int_equal(find_kind((enum rpma_device_kind)3), RPMA_E_INVAL);
    assert_int_equal(find("here", (enum rpma_util_ibv_context_type)2), RPMA_E_INVAL);
    setenv("RPMA_DEVICE", "both", 1);
    assert_int_equal(find("here", RPMA_UTIL_IBV_CONTEXT_LOCAL), RPMA_E_INVAL);
    unsetenv("RPMA_DEVICE");
    assert_calls("");
}

TEST(the_environment_chooses_for_programs_that_do_not)
{
    static const char *const kinds[] = {"any", "kernel"};
    for (int i = 0; i < 2; ++i) {
        setenv("RPMA_DEVICE", kinds[i], 1);
        fake_forget_calls();
        assert_int_equal(find("here", RPMA_UTIL_IBV_CONTEXT_LOCAL), 0);
        assert_non_null(strstr(fake_calls(), "ibv_get_device_list"));
    }
    fake_device()->absent = true;
    assert_provider(find("here", RPMA_UTIL_IBV_CONTEXT_LOCAL), ENODEV);
    unsetenv("RPMA_DEVICE");
}

// Runs last, because the library keeps the device until the process exits.
TEST(softrdma_in_the_place_of_the_libraries_is_the_software_device)
{
    enum rpma_device_kind kind = RPMA_DEVICE_ANY;
    // These tests have no libsoftrdma.so beside them.
    assert_provider(find_kind(RPMA_DEVICE_SOFTRDMA), ELIBACC);
    fake_device()->software = true;
    assert_provider(find_kind(RPMA_DEVICE_KERNEL), ENODEV);
    expect_device_of(RPMA_DEVICE_SOFTRDMA);
    expect_device_of(RPMA_DEVICE_ANY);
    assert_int_equal(rpma_utils_ibv_context_get_kind(fake_context(), &kind), 0);
    assert_int_equal(kind, RPMA_DEVICE_SOFTRDMA);
}
