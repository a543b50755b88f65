// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(peer);

#define FLUSH_METHOD "RPMA_FLUSH_METHOD"

CASE(a_device_serves_many_peers)
{
    struct rpma_peer *peers[16];
    for (size_t i = 0; i < 16; ++i)
        peers[i] = new_peer();
    for (size_t i = 0; i < 16; ++i)
        assert_done(rpma_peer_delete(&peers[i]));
}

CASE(peers_can_be_created_repeatedly)
{
    for (int i = 0; i < 200; ++i) {
        struct rpma_peer *peer = new_peer();
        assert_done(rpma_peer_delete(&peer));
        assert_null(peer);
        assert_done(rpma_peer_delete(&peer));
        assert_null(peer);
    }
}

CASE(deleting_a_peer_with_a_region_fails_and_consumes_it)
{
    struct rpma_peer *peer = new_peer();
    new_region(peer, 4096, USAGE_ALL);
    assert_rpma(rpma_peer_delete(&peer), RPMA_E_PROVIDER);
    assert_null(peer);
}

CASE(deleting_a_peer_with_a_shared_receive_queue_fails)
{
    struct rpma_peer *peer = new_peer();
    new_srq(peer, 4, 4);
    assert_rpma(rpma_peer_delete(&peer), RPMA_E_PROVIDER);
    assert_null(peer);
}

CASE(deleting_a_peer_with_a_connection_fails)
{
    struct pair pair = connect_pair();
    assert_rpma(rpma_peer_delete(&pair.peer), RPMA_E_PROVIDER);
    assert_null(pair.peer);
}

CASE(a_peer_can_be_deleted_after_its_objects)
{
    struct pair pair = connect_pair();
    disconnect(&pair);
    assert_done(rpma_conn_delete(&pair.client.conn));
    assert_done(rpma_conn_delete(&pair.server.conn));
    assert_done(rpma_ep_shutdown(&pair.listener.ep));
    assert_done(rpma_mr_dereg(&pair.client.memory.mr));
    assert_done(rpma_mr_dereg(&pair.server.memory.mr));
    assert_done(rpma_peer_delete(&pair.peer));
}

CASE(regions_of_another_peer_cannot_be_used)
{
    struct pair pair = connect_pair();
    struct region foreign = new_region(new_peer(), 4096, USAGE_ALL);
    assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, foreign.mr, 0, 8, ALWAYS, &pair));
    expect_failure(pair.client.cq, IBV_WC_LOC_PROT_ERR, &pair);
}

CASE(an_unknown_flush_method_is_refused)
{
    struct rpma_peer *peer = NULL;
    struct ibv_context *context = device();
    assert_int_equal(setenv(FLUSH_METHOD, "sometimes", 1), 0);
    assert_rpma(rpma_peer_new(context, &peer), RPMA_E_INVAL);
    assert_null(peer);
}

CASE(the_flush_method_auto_suits_every_device)
{
    assert_int_equal(setenv(FLUSH_METHOD, "auto", 1), 0);
    new_peer();
}

CASE(the_flush_method_emulated_suits_every_device)
{
    assert_int_equal(setenv(FLUSH_METHOD, "emulated", 1), 0);
    struct pair pair = connect_pair();
    assert_done(rpma_flush(pair.client.conn, pair.client.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, &pair));
    expect_success(pair.client.cq, IBV_WC_RDMA_READ, &pair);
}

CASE(the_flush_method_native_needs_a_device_that_has_it)
{
    const uint64_t flush_capabilities = UINT64_C(3) << 38;
    bool capable = (device_attributes().device_cap_flags_ex & flush_capabilities) == flush_capabilities;
    struct rpma_peer *peer = NULL;
    struct ibv_context *context = device();
    assert_int_equal(setenv(FLUSH_METHOD, "native", 1), 0);
    assert_rpma(rpma_peer_new(context, &peer), capable ? 0 : RPMA_E_NOSUPP);
}
