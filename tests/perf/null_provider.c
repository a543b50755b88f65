// SPDX-License-Identifier: BSD-3-Clause
// A preload that replaces libibverbs and librdmacm with a device without effects, on which every call succeeds.
// NULL_PROVIDER_NATIVE=1 enables native flush and native atomic write.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    rkey = 0x10111213,
    lkey = 0x20212223,
    // Missing in the headers of rdma-core 44.
    wc_flush = 8,
    wc_atomic_write = 9,
    qp_ex_with_flush = 1 << 11,
    qp_ex_with_atomic_write = 1 << 12,
};
static const uint64_t native_capabilities = UINT64_C(7) << 38;

// Layout of struct ibv_qp_ex since rdma-core 45, independent of the installed headers.
union null_qp {
    struct ibv_qp_ex ex;
    struct {
        char up_to_atomic_write[352];
        void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, size_t len, uint8_t type, uint8_t level);
    } since_45;
};

static enum ibv_wc_opcode last_opcode;

// Defines a function that has no effect, and one that frees its argument.
#define SUCCEED(name, ...)                                                                                             \
    EXPORT int name(__VA_ARGS__)                                                                                       \
    {                                                                                                                  \
        return 0;                                                                                                      \
    }
#define FREE(name, type)                                                                                               \
    EXPORT int name(type *object)                                                                                      \
    {                                                                                                                  \
        free(object);                                                                                                  \
        return 0;                                                                                                      \
    }

// Allocates an object with these members. A program that has no memory left ends here.
#define NEW(type, ...) memcpy(allocate(sizeof(type)), &(type){__VA_ARGS__}, sizeof(type))

static void *allocate(size_t size)
{
    void *memory = malloc(size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static bool is_native(void)
{
    const char *native = getenv("NULL_PROVIDER_NATIVE");
    return native != NULL && strcmp(native, "1") == 0;
}

static int null_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
    wc->status = IBV_WC_SUCCESS;
    wc->opcode = last_opcode;
    return 1;
}

static int null_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    return 0;
}

static int null_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    if (wr->opcode == IBV_WR_RDMA_READ) {
        last_opcode = IBV_WC_RDMA_READ;
    } else if (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM) {
        last_opcode = IBV_WC_SEND;
    } else {
        last_opcode = IBV_WC_RDMA_WRITE;
    }
    return 0;
}

static int null_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    last_opcode = IBV_WC_RECV;
    return 0;
}

static int null_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    return null_post_recv(NULL, wr, bad_wr);
}

static void null_wr_start(struct ibv_qp_ex *qp) {}

static int null_wr_complete(struct ibv_qp_ex *qp)
{
    return 0;
}

static void null_wr_flush(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, size_t len, uint8_t type, uint8_t level)
{
    last_opcode = (enum ibv_wc_opcode)wc_flush;
}

static void null_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, const void *value)
{
    last_opcode = (enum ibv_wc_opcode)wc_atomic_write;
}

static int null_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
        struct ibv_device_attr_ex *attr, size_t attr_size)
{
    memset(attr, 0, attr_size);
    attr->orig_attr.phys_port_cnt = 1;
    attr->device_cap_flags_ex = is_native() ? native_capabilities : 0;
    return 0;
}

static int null_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t attr_size)
{
    memset(attr, 0, attr_size);
    attr->state = IBV_PORT_ACTIVE;
    attr->max_msg_sz = UINT32_C(1) << 31;
    return 0;
}

static struct ibv_device device = {.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "null0"};

static struct verbs_context context = {
        .query_port = null_query_port,
        .query_device_ex = null_query_device_ex,
        .sz = sizeof(struct verbs_context),
        .context =
                {
                        .device = &device,
                        .ops =
                                {
                                        .poll_cq = null_poll_cq,
                                        .req_notify_cq = null_req_notify_cq,
                                        .post_srq_recv = null_post_srq_recv,
                                        .post_send = null_post_send,
                                        .post_recv = null_post_recv,
                                },
                        .num_comp_vectors = 1,
                        .abi_compat = __VERBS_ABI_IS_EXTENDED,
                },
};

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
    return NEW(struct ibv_pd, .context = ctx);
}

FREE(ibv_dealloc_pd, struct ibv_pd)

EXPORT struct ibv_mr *(ibv_reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return NEW(struct ibv_mr, .context = pd->context, .pd = pd, .addr = addr, .length = length, .lkey = lkey,
            .rkey = rkey);
}

FREE(ibv_dereg_mr, struct ibv_mr)

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
    return NEW(struct ibv_comp_channel, .context = ctx, .fd = -1);
}

FREE(ibv_destroy_comp_channel, struct ibv_comp_channel)

EXPORT struct ibv_cq *ibv_create_cq(
        struct ibv_context *ctx, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector)
{
    return NEW(struct ibv_cq, .context = ctx, .channel = channel, .cq_context = cq_context, .cqe = cqe);
}

FREE(ibv_destroy_cq, struct ibv_cq)

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    return NEW(struct ibv_srq, .context = pd->context, .pd = pd);
}

FREE(ibv_destroy_srq, struct ibv_srq)

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    struct ibv_qp_ex *ex = (struct ibv_qp_ex *)(void *)qp;
    return ex->wr_start != NULL ? ex : NULL;
}

EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
    return "null event";
}

EXPORT int rdma_getaddrinfo(
        const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
    static struct sockaddr_in loopback;
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    static struct rdma_addrinfo info;
    info = (struct rdma_addrinfo){
            .ai_family = AF_INET,
            .ai_qp_type = IBV_QPT_RC,
            .ai_port_space = RDMA_PS_TCP,
            .ai_src_len = sizeof(loopback),
            .ai_dst_len = sizeof(loopback),
            .ai_src_addr = (struct sockaddr *)&loopback,
            .ai_dst_addr = (struct sockaddr *)&loopback,
    };
    *res = &info;
    return 0;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res) {}

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
    return NEW(struct rdma_event_channel, .fd = -1);
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    free(channel);
}

EXPORT int rdma_create_id(
        struct rdma_event_channel *channel, struct rdma_cm_id **id, void *id_context, enum rdma_port_space ps)
{
    *id = NEW(struct rdma_cm_id, .channel = channel, .context = id_context, .ps = ps, .port_num = 1);
    return 0;
}

FREE(rdma_destroy_id, struct rdma_cm_id)

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    id->verbs = &context.context;
    return 0;
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
    return rdma_bind_addr(id, src);
}

SUCCEED(rdma_resolve_route, struct rdma_cm_id *id, int timeout_ms)

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    union null_qp *qp = NEW(union null_qp, 0);
    qp->ex.qp_base = (struct ibv_qp){.context = id->verbs,
            .pd = attr->pd,
            .send_cq = attr->send_cq,
            .recv_cq = attr->recv_cq,
            .srq = attr->srq,
            .qp_num = 1,
            .qp_type = IBV_QPT_RC};
    if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
        qp->ex.wr_start = null_wr_start;
        qp->ex.wr_complete = null_wr_complete;
        if (attr->send_ops_flags & qp_ex_with_flush) {
            qp->since_45.wr_flush = null_wr_flush;
        }
        if (attr->send_ops_flags & qp_ex_with_atomic_write) {
            qp->ex.wr_atomic_write = null_wr_atomic_write;
        }
    }
    id->qp = &qp->ex.qp_base;
    id->pd = attr->pd;
    return 0;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
    free(id->qp);
    id->qp = NULL;
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    id->channel = channel;
    return 0;
}

SUCCEED(rdma_connect, struct rdma_cm_id *id, struct rdma_conn_param *param)

SUCCEED(rdma_disconnect, struct rdma_cm_id *id)
