/* SPDX-License-Identifier: BSD-3-Clause */
/* Program for tests of the softrdma command. It connects a pair, sends itself a datagram without a posted receive, and
 * writes periodically. If a request fails, it prints that. */
#include "fixture.h"

#include <stdio.h>

static int lose_datagram(const struct side *side)
{
    struct ibv_qp_init_attr init = {
            .send_cq = side->cq, .recv_cq = side->cq, .cap = {.max_send_wr = 1}, .qp_type = IBV_QPT_UD};
    struct ibv_qp *qp = ibv_create_qp(side->pd, &init);
    struct ibv_ah_attr where = {.port_num = 1, .is_global = 1};
    if (qp == NULL || ibv_query_gid(side->pd->context, 1, 0, &where.grh.dgid) != 0)
        return -1;
    struct ibv_ah *ah = ibv_create_ah(side->pd, &where);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    attr.qp_state = IBV_QPS_RTR;
    error |= ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    error |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .wr.ud = {.ah = ah, .remote_qpn = qp->qp_num}};
    struct ibv_send_wr *bad = NULL;
    return ah == NULL || error != 0 ? -1 : ibv_post_send(qp, &wr, &bad);
}

int main(void)
{
    struct pair p;
    open_pair(&p, NULL);
    if (lose_datagram(&p.client) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    for (unsigned i = 0; i < 3000 && status == IBV_WC_SUCCESS; ++i) {
        if (post(&p.client, IBV_WR_RDMA_WRITE, i, 0, 8, &p.server, 0, 0) != 0)
            return 1;
        status = next_completion(p.client.cq).status;
        usleep(10000);
    }
    puts(ibv_wc_status_str(status));
    return 0;
}
