// SPDX-License-Identifier: BSD-3-Clause
/* errno contains the cause of a provider's error; success does not change errno. */
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(error_number);

#define BEFORE 4711

CASE(an_unmapped_region_is_efault)
{
    struct rpma_peer *peer = new_peer();
    struct rpma_mr_local *mr = NULL;
    errno = BEFORE;
    assert_provider(rpma_mr_reg(peer, (void *)(uintptr_t)4096, 4096, RPMA_MR_USAGE_READ_SRC, &mr), EFAULT);
}

CASE(a_full_send_queue_is_enomem)
{
    struct pair pair = connect_pair();
    int result = 0;
    for (int posted = 0; posted < 4096 && result == 0; ++posted) {
        errno = BEFORE;
        result = rpma_write(pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, NULL);
    }
    assert_provider(result, ENOMEM);
}

CASE(a_peer_that_is_in_use_is_ebusy)
{
    struct rpma_peer *peer = new_peer();
    new_region(peer, 4096, USAGE_ALL);
    errno = BEFORE;
    assert_provider(rpma_peer_delete(&peer), EBUSY);
}

CASE(too_much_private_data_is_einval)
{
    if (!has_infiniband_limits())
        skip_because("the device has other limits of private data than InfiniBand and RoCE");
    unsigned char sent[255] = {0};
    struct rpma_conn_private_data pdata = {sent, 255};
    struct rpma_conn_req *req = new_request(new_peer(), "7204", NULL);
    struct rpma_conn *conn = NULL;
    errno = BEFORE;
    assert_provider(rpma_conn_req_connect(&req, &pdata, &conn), EINVAL);
}

/* name, preparation, call that succeeds */
#define QUIET(ROW)                                                                                                     \
    ROW(making_a_peer, struct ibv_context *context = device();                                                         \
            struct rpma_peer *peer = NULL, rpma_peer_new(context, &peer))                                              \
    ROW(deleting_a_peer, struct rpma_peer *peer = new_peer(), rpma_peer_delete(&peer))                                 \
    ROW(deregistering_a_region, struct region region = new_region(new_peer(), 4096, USAGE_ALL),                        \
            rpma_mr_dereg(&region.mr))                                                                                 \
    ROW(asking_for_on_demand_paging, struct ibv_context *context = device();                                           \
            int capable, rpma_utils_ibv_context_is_odp_capable(context, &capable))                                     \
    ROW(making_a_shared_receive_queue, struct rpma_peer *peer = new_peer();                                            \
            struct rpma_srq *srq = NULL, rpma_srq_new(peer, NULL, &srq))                                               \
    ROW(deleting_a_shared_receive_queue, struct rpma_srq *srq = new_srq(new_peer(), 4, 4), rpma_srq_delete(&srq))      \
    ROW(posting_a_write, struct pair pair = connect_pair(),                                                            \
            rpma_write(pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, NULL))                                           \
    ROW(posting_a_receive, struct pair pair = connect_pair(), rpma_recv(pair.client.conn, NULL, 0, 0, NULL))

#define QUIET_CASE(name, preparation, call)                                                                            \
    CASE(name##_leaves_errno_alone)                                                                                    \
    {                                                                                                                  \
        preparation;                                                                                                   \
        errno = BEFORE;                                                                                                \
        assert_done(call);                                                                                             \
        assert_errno(BEFORE);                                                                                          \
    }
QUIET(QUIET_CASE)

CASE(waiting_for_a_completion_leaves_errno_alone)
{
    struct pair pair = connect_pair();
    assert_done(rpma_write(pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, NULL));
    errno = BEFORE;
    assert_done(rpma_cq_wait(pair.client.cq));
    assert_errno(BEFORE);
}

CASE(waiting_on_a_shared_channel_leaves_errno_alone)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    struct rpma_cq *cq = NULL;
    assert_done(rpma_conn_cfg_set_compl_channel(cfg, true));
    struct pair pair = connect_pair_with(new_peer(), cfg, NULL);
    assert_done(rpma_write(pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, NULL));
    errno = BEFORE;
    assert_done(rpma_conn_wait(pair.client.conn, 0, &cq, NULL));
    assert_errno(BEFORE);
}

CASE(deleting_a_connection_leaves_errno_alone)
{
    struct pair pair = connect_pair();
    disconnect(&pair);
    errno = BEFORE;
    assert_done(rpma_conn_delete(&pair.client.conn));
    assert_errno(BEFORE);
}
