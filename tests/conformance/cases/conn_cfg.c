// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/rdma.h"

#include <limits.h>

SUITE(conn_cfg);

/* name, type of the value, default */
#define CONN_FIELDS(ROW)                                                                                               \
    ROW(timeout, int, RPMA_DEFAULT_TIMEOUT_MS)                                                                         \
    ROW(cq_size, uint32_t, 10)                                                                                         \
    ROW(rcq_size, uint32_t, 0)                                                                                         \
    ROW(sq_size, uint32_t, 10)                                                                                         \
    ROW(rq_size, uint32_t, 10)                                                                                         \
    ROW(compl_channel, bool, false)

#define DEFAULT_CASE(field, type, value)                                                                               \
    CASE(the_default_##field##_is_the_documented_one)                                                                  \
    {                                                                                                                  \
        type got = (type)77;                                                                                           \
        assert_done(rpma_conn_cfg_get_##field(new_cfg(), &got));                                                       \
        assert_int_equal(got, value);                                                                                  \
    }
CONN_FIELDS(DEFAULT_CASE)

/* name, field, type, value */
#define CONN_VALUES(ROW)                                                                                               \
    ROW(a_timeout, timeout, int, 4034)                                                                                 \
    ROW(a_timeout_of_0, timeout, int, 0)                                                                               \
    ROW(the_longest_timeout, timeout, int, INT32_MAX)                                                                  \
    ROW(a_cq_size, cq_size, uint32_t, 13)                                                                              \
    ROW(a_cq_size_of_0, cq_size, uint32_t, 0)                                                                          \
    ROW(the_largest_cq_size, cq_size, uint32_t, UINT32_MAX)                                                            \
    ROW(an_rcq_size, rcq_size, uint32_t, 16)                                                                           \
    ROW(the_largest_rcq_size, rcq_size, uint32_t, UINT32_MAX)                                                          \
    ROW(an_sq_size, sq_size, uint32_t, 14)                                                                             \
    ROW(the_largest_sq_size, sq_size, uint32_t, UINT32_MAX)                                                            \
    ROW(an_rq_size, rq_size, uint32_t, 15)                                                                             \
    ROW(the_largest_rq_size, rq_size, uint32_t, UINT32_MAX)                                                            \
    ROW(a_shared_channel, compl_channel, bool, true)

#define VALUE_CASE(name, field, type, value)                                                                           \
    CASE(name##_reads_back_as_set)                                                                                     \
    {                                                                                                                  \
        struct rpma_conn_cfg *cfg = new_cfg();                                                                         \
        type got = (type)77;                                                                                           \
        assert_done(rpma_conn_cfg_set_##field(cfg, value));                                                            \
        assert_done(rpma_conn_cfg_get_##field(cfg, &got));                                                             \
        assert_int_equal(got, value);                                                                                  \
    }
CONN_VALUES(VALUE_CASE)

CASE(there_is_no_shared_receive_queue_at_first)
{
    struct rpma_srq *srq = (struct rpma_srq *)(uintptr_t)64;
    assert_done(rpma_conn_cfg_get_srq(new_cfg(), &srq));
    assert_null(srq);
}

CASE(a_shared_receive_queue_reads_back_as_set)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    struct rpma_srq *srq = new_srq(new_peer(), 4, 4);
    struct rpma_srq *got = NULL;
    assert_done(rpma_conn_cfg_set_srq(cfg, srq));
    assert_done(rpma_conn_cfg_get_srq(cfg, &got));
    assert_ptr_equal(got, srq);
}

CASE(a_negative_timeout_is_refused_and_changes_nothing)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    int got = 77;
    assert_done(rpma_conn_cfg_set_timeout(cfg, 4034));
    assert_rpma(rpma_conn_cfg_set_timeout(cfg, -1), RPMA_E_INVAL);
    assert_rpma(rpma_conn_cfg_set_timeout(cfg, INT_MIN), RPMA_E_INVAL);
    assert_done(rpma_conn_cfg_get_timeout(cfg, &got));
    assert_int_equal(got, 4034);
}

CASE(a_shared_channel_can_be_unset)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    bool got = true;
    assert_done(rpma_conn_cfg_set_compl_channel(cfg, true));
    assert_done(rpma_conn_cfg_set_compl_channel(cfg, false));
    assert_done(rpma_conn_cfg_get_compl_channel(cfg, &got));
    assert_false(got);
}

CASE(fields_do_not_influence_each_other)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_cq_size(cfg, 1001));
    assert_done(rpma_conn_cfg_set_rcq_size(cfg, 1002));
    assert_done(rpma_conn_cfg_set_sq_size(cfg, 1003));
    assert_done(rpma_conn_cfg_set_rq_size(cfg, 1004));
    uint32_t cq = 0, rcq = 0, sq = 0, rq = 0;
    assert_done(rpma_conn_cfg_get_cq_size(cfg, &cq));
    assert_done(rpma_conn_cfg_get_rcq_size(cfg, &rcq));
    assert_done(rpma_conn_cfg_get_sq_size(cfg, &sq));
    assert_done(rpma_conn_cfg_get_rq_size(cfg, &rq));
    assert_true(cq == 1001 && rcq == 1002 && sq == 1003 && rq == 1004);
}

CASE(deleting_a_connection_cfg_consumes_it)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_delete(&cfg));
    assert_null(cfg);
    assert_done(rpma_conn_cfg_delete(&cfg));
}

CASE(a_cfg_is_only_read_during_the_call)
{
    struct rpma_conn_cfg *client = new_cfg();
    struct rpma_conn_cfg *server = new_cfg();
    struct listener listener = listen_somewhere(new_peer());
    struct rpma_conn_req *req = new_request(listener.peer, listener.port, client);
    assert_done(rpma_conn_cfg_delete(&client));
    struct rpma_conn *active = connect_request(req, NULL);
    req = next_request(listener.ep, server);
    assert_done(rpma_conn_cfg_delete(&server));
    connect_request(req, NULL);
    expect_event(active, RPMA_CONN_ESTABLISHED);
}

CASE(one_cfg_serves_both_sides)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    connect_pair_with(new_peer(), cfg, cfg);
}
