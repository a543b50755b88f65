// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

static struct rpma_cq *cq;
static struct ibv_cq *face;

static int begin(void **state)
{
    begin_conn_test(state);
    face = newest_qp()->send_cq;
    return rpma_conn_get_cq(conn, &cq);
}

#define CQ_TEST(name) DEFINE_TEST(name, begin, end_test)

CQ_TEST(waiting_consumes_the_event_and_rearms_the_queue)
{
    const struct ibv_wc wc = {.wr_id = 1};
    for (int i = 0; i < 3; ++i) {
        fake_forget_calls();
        fake_complete(face, &wc);
        fake_complete(face, &wc);
        assert_done(rpma_cq_wait(cq));
        assert_calls("ibv_get_cq_event ibv_ack_cq_events ibv_req_notify_cq");
        assert_int_equal(fake_seen()->solicited_only, 0);
        assert_false(is_readable(face->channel->fd));
    }
}

CQ_TEST(an_unexpected_error_of_the_channel_is_returned_and_left_in_errno)
{
    fake_fail_call(1, EBADF, false);
    assert_int_equal(rpma_cq_wait(cq), RPMA_E_NO_COMPLETION);
    assert_int_equal(errno, EBADF);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_WARNING), 1);
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_WARNING), strerror(EBADF)));
}

CQ_TEST(a_queue_that_cannot_be_armed_again_is_a_provider_error)
{
    fake_fire(face);
    fake_fail_call(2, EIO, false);
    assert_provider(rpma_cq_wait(cq), EIO);
    assert_string_equal(fake_failed_call(), "ibv_req_notify_cq");
}

CQ_TEST(completions_come_unchanged_and_in_order)
{
    const int wanted[] = {1, 2, 3, 6};
    for (size_t w = 0; w < sizeof(wanted) / sizeof(wanted[0]); ++w) {
        struct ibv_wc in[6], out[6];
        memset(in, 0, sizeof(in));
        memset(out, 0xee, sizeof(out));
        for (int i = 0; i < wanted[w]; ++i) {
            in[i].wr_id = 0x1122334455667788 + (uint64_t)i;
            in[i].status = IBV_WC_REM_ACCESS_ERR;
            in[i].opcode = IBV_WC_RECV_RDMA_WITH_IMM;
            in[i].imm_data = 0x21436587;
            in[i].byte_len = 5;
            in[i].qp_num = 1289;
            fake_complete(face, &in[i]);
        }
        int got = 0;
        assert_done(rpma_cq_get_wc(cq, wanted[w], out, &got));
        assert_int_equal(got, wanted[w]);
        assert_memory_equal(in, out, (size_t)got * sizeof(in[0]));
        struct ibv_wc untouched;
        memset(&untouched, 0xee, sizeof(untouched));
        for (int i = wanted[w]; i < 6; ++i)
            assert_memory_equal(&out[i], &untouched, sizeof(untouched));
    }
}

CQ_TEST(a_failed_poll_is_a_provider_error)
{
    struct ibv_wc wc[2];
    int got = 7;
    for (int entries = 1; entries <= 2; ++entries) {
        fake_fail_call(1, EIO, false);
        assert_provider(rpma_cq_get_wc(cq, entries, wc, &got), EIO);
    }
    assert_int_equal(got, 7);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 2);
}

CQ_TEST(more_completions_than_requested_are_unknown)
{
    struct ibv_wc wc[2];
    int got = 7;
    fake_device()->poll_surplus = 1;
    assert_int_equal(rpma_cq_get_wc(cq, 1, wc, &got), RPMA_E_UNKNOWN);
    assert_int_equal(rpma_cq_get_wc(cq, 2, wc, &got), RPMA_E_UNKNOWN);
    assert_int_equal(got, 7);
}
