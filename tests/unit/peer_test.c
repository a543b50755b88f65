// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <stdlib.h>

TEST(a_peer_is_one_query_and_a_protection_domain)
{
    assert_done(rpma_peer_new(fake_context(), &peer));
    assert_calls("ibv_query_device_ex ibv_query_port ibv_alloc_pd");
    assert_false(fake_seen()->device_query_had_input);
}

TEST(the_limit_of_every_port_is_queried)
{
    fake_device()->ports = 3;
    drop_peer(make_peer());
    assert_calls("ibv_query_device_ex ibv_query_port ibv_query_port ibv_query_port ibv_alloc_pd ibv_dealloc_pd");
}

TEST(a_port_that_cannot_be_queried_is_passed_over)
{
    fake_device()->ports = 2;
    fake_device()->max_msg_sz[1] = 100;
    fake_fail_call(2, EIO, false);
    peer = make_peer();
    assert_string_equal(fake_failed_call(), "ibv_query_port");
    mr = make_mr(peer);
    conn = make_conn(peer, NULL);
    assert_int_equal(rpma_send(conn, mr, 0, 100, ODD_FLAGS, CONTEXT), 0);
    assert_int_equal(rpma_send(conn, mr, 0, 101, ODD_FLAGS, CONTEXT), RPMA_E_INVAL);
}

TEST(a_device_without_extended_query_has_no_capabilities)
{
    fake_make_native();
    fake_device()->without_extended_query = true;
    peer = make_peer();
    assert_calls("ibv_query_device ibv_query_port ibv_alloc_pd");
    drop_conn(make_conn(peer, NULL));
    assert_int_equal(fake_seen()->qp_attributes.comp_mask, IBV_QP_INIT_ATTR_PD);
}

TEST(a_protection_domain_without_memory_is_nomem)
{
    struct rpma_peer *created = BOGUS;
    fake_fail_call(3, ENOMEM, false);
    assert_int_equal(rpma_peer_new(fake_context(), &created), RPMA_E_NOMEM);
    assert_ptr_equal(created, BOGUS);
    assert_string_equal(fake_failed_call(), "ibv_alloc_pd");
}

TEST(a_missing_protection_domain_without_errno_is_unknown)
{
    struct rpma_peer *created = BOGUS;
    fake_device()->alloc_pd_is_silent = true;
    errno = ENOMEM;
    assert_int_equal(rpma_peer_new(fake_context(), &created), RPMA_E_UNKNOWN);
    assert_ptr_equal(created, BOGUS);
}

TEST(missing_capabilities_are_logged)
{
    drop_peer(make_peer());
    assert_int_equal(log_count(RPMA_LOG_LEVEL_INFO), 2);
    fake_make_native();
    drop_peer(make_peer());
    assert_int_equal(log_count(RPMA_LOG_LEVEL_INFO), 2);
}

// Native operations among the send_ops_flags that a connection of a new peer requests. All others are always requested
// with them.
static uint64_t asked_ops(void)
{
    peer = make_peer();
    conn = make_conn(peer, NULL);
    drop_objects();
    const struct ibv_qp_init_attr_ex *const attributes = &fake_seen()->qp_attributes;
    const bool asks = (attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    assert_int_equal(asks, attributes->send_ops_flags != 0);
    assert_int_equal(attributes->send_ops_flags & FAKE_SEND_OPS_CLASSIC, asks ? FAKE_SEND_OPS_CLASSIC : 0);
    return attributes->send_ops_flags & ~(uint64_t)FAKE_SEND_OPS_CLASSIC;
}

TEST(native_operations_are_requested_if_the_device_supports_them)
{
    const uint64_t global = 1ULL << FAKE_CAP_FLUSH_GLOBAL;
    const uint64_t persistent = 1ULL << FAKE_CAP_FLUSH_PERSISTENT;
    const uint64_t atomic_write = 1ULL << FAKE_CAP_ATOMIC_WRITE;
    const struct {
        uint64_t capabilities;
        uint64_t ops;
    } rows[] = {
            {0, 0},
            {global, 0},
            {persistent, 0},
            {global | persistent, FAKE_SEND_OPS_FLUSH},
            {atomic_write, FAKE_SEND_OPS_ATOMIC_WRITE},
            {global | persistent | atomic_write, FAKE_SEND_OPS_FLUSH | FAKE_SEND_OPS_ATOMIC_WRITE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        fake_device()->capabilities = rows[i].capabilities;
        assert_int_equal(asked_ops(), rows[i].ops);
    }
}

TEST(the_environment_can_ask_for_emulated_flush)
{
    fake_make_native();
    setenv("RPMA_FLUSH_METHOD", "emulated", 1);
    assert_int_equal(asked_ops(), FAKE_SEND_OPS_ATOMIC_WRITE);
    setenv("RPMA_FLUSH_METHOD", "auto", 1);
    assert_int_equal(asked_ops(), FAKE_SEND_OPS_FLUSH | FAKE_SEND_OPS_ATOMIC_WRITE);
    setenv("RPMA_FLUSH_METHOD", "native", 1);
    assert_int_equal(asked_ops(), FAKE_SEND_OPS_FLUSH | FAKE_SEND_OPS_ATOMIC_WRITE);
}

TEST(the_environment_can_ask_for_emulated_atomic_writes)
{
    fake_make_native();
    setenv("RPMA_ATOMIC_WRITE_METHOD", "emulated", 1);
    assert_int_equal(asked_ops(), FAKE_SEND_OPS_FLUSH);
    setenv("RPMA_FLUSH_METHOD", "emulated", 1);
    assert_int_equal(asked_ops(), 0);
    setenv("RPMA_ATOMIC_WRITE_METHOD", "native", 1);
    assert_int_equal(asked_ops(), FAKE_SEND_OPS_ATOMIC_WRITE);
}

static const char *const methods[] = {"RPMA_FLUSH_METHOD", "RPMA_ATOMIC_WRITE_METHOD"};

TEST(insisting_on_a_native_operation_fails_without_it)
{
    for (unsigned i = 0; i < 2; ++i) {
        struct rpma_peer *created = BOGUS;
        setenv(methods[i], "native", 1);
        assert_int_equal(rpma_peer_new(fake_context(), &created), RPMA_E_NOSUPP);
        assert_ptr_equal(created, BOGUS);
        assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), i + 1);
        assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), methods[i]));
        unsetenv(methods[i]);
    }
}

TEST(an_unknown_method_is_refused_before_anything_is_called)
{
    const char *const wrong[] = {"", "Native", "apm", "auto "};
    unsigned refusals = 0;
    for (unsigned m = 0; m < 2; ++m) {
        for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
            struct rpma_peer *created = BOGUS;
            setenv(methods[m], wrong[i], 1);
            assert_int_equal(rpma_peer_new(fake_context(), &created), RPMA_E_INVAL);
            assert_ptr_equal(created, BOGUS);
            assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), ++refusals);
            assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), methods[m]));
        }
        unsetenv(methods[m]);
    }
    assert_calls("");
}
