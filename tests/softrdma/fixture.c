/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct ibv_context *device;

static void parse_address(const char *text, struct sockaddr_storage *address)
{
    memset(address, 0, sizeof(*address));
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
        v6->sin6_family = AF_INET6;
    }
}

/* Returns the options with their default values. */
static struct options complete(const struct options *given)
{
    struct options all = given != NULL ? *given : (struct options){0};
    all.address = all.address != NULL ? all.address : "127.0.0.1";
    all.size = all.size != 0 ? all.size : 4096;
    all.depth = all.depth != 0 ? all.depth : 16;
    all.server_access = all.server_access != 0 ? all.server_access : (int)everything;
    all.server_recv_depth = all.server_recv_depth != 0 ? all.server_recv_depth : all.depth;
    all.rnr_retry = all.rnr_retry != 0 ? all.rnr_retry : 7;
    return all;
}

void expect_error(int result, int error)
{
    assert_int_equal(result, -1);
    assert_int_equal(errno, error);
}

void expect_null(const void *result, int error)
{
    assert_null(result);
    assert_int_equal(errno, error);
}

void expect_readable(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, time_limit_ms), 1);
}

void expect_unreadable(int fd, int ms)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, ms), 0);
}

struct rdma_cm_event *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    expect_readable(channel->fd);
    struct rdma_cm_event *event = NULL;
    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    return event;
}

int expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = next_event(channel, type);
    int status = event->status;
    assert_int_equal(rdma_ack_cm_event(event), 0);
    return status;
}

void expect_no_event(struct rdma_event_channel *channel)
{
    expect_unreadable(channel->fd, 100);
}

struct ibv_wc next_completion(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    for (long deadline = now_ms() + time_limit_ms; now_ms() < deadline;) {
        int count = ibv_poll_cq(cq, 1, &wc);
        assert_true(count >= 0);
        if (count == 1)
            return wc;
    }
    fail_msg("no completion in %d ms", time_limit_ms);
    return wc;
}

struct ibv_wc expect_completion(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
    const struct ibv_wc wc = next_completion(cq);
    assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
    assert_int_equal(wc.wr_id, wr_id);
    return wc;
}

void expect_no_completion(struct ibv_cq *cq)
{
    expect_no_completion_for(cq, 0);
}

void expect_no_completion_for(struct ibv_cq *cq, unsigned ms)
{
    struct ibv_wc wc;
    for (unsigned i = 0; i <= ms; ++i, usleep(1000))
        assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

void open_listener(struct pair *pair, const char *address)
{
    struct sockaddr_storage any_port;
    parse_address(address, &any_port);
    pair->listen_channel = rdma_create_event_channel();
    assert_non_null(pair->listen_channel);
    assert_int_equal(rdma_create_id(pair->listen_channel, &pair->listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(pair->listener, (struct sockaddr *)&any_port), 0);
    assert_int_equal(rdma_listen(pair->listener, 0), 0);
}

static void create_queue_pair(struct side *side, struct ibv_qp_init_attr *attr, uint64_t send_ops)
{
    if (send_ops == 0) {
        assert_int_equal(rdma_create_qp(side->id, side->pd, attr), 0);
        return;
    }
    struct ibv_qp_init_attr_ex extended = {.send_cq = attr->send_cq,
            .recv_cq = attr->recv_cq,
            .srq = attr->srq,
            .cap = attr->cap,
            .qp_type = attr->qp_type,
            .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
            .pd = side->pd,
            .send_ops_flags = send_ops};
    assert_int_equal(rdma_create_qp_ex(side->id, &extended), 0);
}

void create_queues(struct side *side, struct ibv_srq *srq, const struct options *given, bool server)
{
    const struct options o = complete(given);
    side->size = o.size;
    side->borrowed = o.lender != NULL;
    if (side->borrowed)
        side->pd = o.lender->pd;
    if (side->pd == NULL)
        side->pd = ibv_alloc_pd(side->id->verbs);
    assert_non_null(side->pd);
    side->completions = ibv_create_comp_channel(side->id->verbs);
    assert_non_null(side->completions);
    side->cq = ibv_create_cq(side->id->verbs, (int)(4 * o.depth), side, side->completions, 0);
    assert_non_null(side->cq);
    struct ibv_qp_init_attr attr = {.send_cq = side->cq,
            .recv_cq = side->cq,
            .srq = srq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = o.depth,
                    .max_recv_wr = server ? o.server_recv_depth : o.depth,
                    .max_send_sge = 4,
                    .max_recv_sge = 4,
                    .max_inline_data = 64}};
    create_queue_pair(side, &attr, server ? 0 : o.send_ops);
    side->qp = side->id->qp;
    if (side->borrowed) {
        side->mr = o.lender->mr;
        side->memory = o.lender->memory;
        return;
    }
    side->mapped = server && o.server_memory != NULL;
    side->has_file = server && o.server_file != 0;
    if (side->has_file)
        side->memory = map_file(side->size, o.server_file, NULL);
    else
        side->memory = side->mapped ? o.server_memory : calloc(1, side->size);
    assert_non_null(side->memory);
    side->mr = create_mr(side->pd, side->memory, side->size, server ? o.server_access : (int)everything);
}

void resolve_client(struct pair *pair, const struct options *options)
{
    struct sockaddr_storage to;
    parse_address(complete(options).address, &to);
    if (pair->listener != NULL)
        ((struct sockaddr_in *)&to)->sin_port = rdma_get_src_port(pair->listener); /* same place in both families */
    resolve_side(&pair->client, NULL, &to);
    create_queues(&pair->client, NULL, options, false);
}

void resolve_side(struct side *client, void *from, void *to)
{
    client->channel = rdma_create_event_channel();
    assert_non_null(client->channel);
    assert_int_equal(rdma_create_id(client->channel, &client->id, client, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(client->id, from, to, 1000), 0);
    assert_int_equal(expect_event(client->channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    assert_int_equal(rdma_resolve_route(client->id, 1000), 0);
    assert_int_equal(expect_event(client->channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
}

static struct rdma_conn_param param_of(const struct options *options)
{
    return (struct rdma_conn_param){.responder_resources = RDMA_MAX_RESP_RES,
            .initiator_depth = RDMA_MAX_INIT_DEPTH,
            .flow_control = 1,
            .retry_count = 7,
            .rnr_retry_count = complete(options).rnr_retry};
}

void connect_client(struct pair *pair, const struct rdma_conn_param *param)
{
    struct rdma_conn_param copy = param != NULL ? *param : param_of(NULL);
    assert_int_equal(rdma_connect(pair->client.id, &copy), 0);
}

struct rdma_cm_event *take_request(struct pair *pair)
{
    struct rdma_cm_event *event = next_event(pair->listen_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_ptr_equal(event->listen_id, pair->listener);
    pair->server.id = event->id;
    return event;
}

void accept_request(struct pair *pair, struct rdma_cm_event *request, const struct options *options)
{
    struct rdma_conn_param param = param_of(options);
    create_queues(&pair->server, pair->srq, options, true);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    assert_int_equal(rdma_accept(pair->server.id, &param), 0);
}

int exit_code_of(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status))
        fail_msg("process %d has ended with status %#x", (int)child, (unsigned)status);
    return WEXITSTATUS(status);
}

void open_pair(struct pair *pair, const struct options *options)
{
    memset(pair, 0, sizeof(*pair));
    struct rdma_conn_param param = param_of(options);
    open_listener(pair, complete(options).address);
    resolve_client(pair, options);
    connect_client(pair, &param);
    struct rdma_cm_event *request = take_request(pair);
    if (options != NULL && options->server_srq) {
        pair->server.pd = ibv_alloc_pd(pair->server.id->verbs);
        if (options->srq_apart)
            pair->srq_pd = ibv_alloc_pd(pair->server.id->verbs);
        pair->srq = create_srq(options->srq_apart ? pair->srq_pd : pair->server.pd, 16);
    }
    accept_request(pair, request, options);
    pair->server.channel = rdma_create_event_channel();
    assert_non_null(pair->server.channel);
    assert_int_equal(rdma_migrate_id(pair->server.id, pair->server.channel), 0);
    assert_int_equal(expect_event(pair->client.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    assert_int_equal(expect_event(pair->server.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
}

void close_side(struct side *side)
{
    if (side->mr != NULL && !side->borrowed)
        assert_int_equal(ibv_dereg_mr(side->mr), 0);
    if (side->id != NULL && side->id->qp != NULL)
        rdma_destroy_qp(side->id);
    else if (side->id == NULL && side->channel == NULL && side->qp != NULL) /* not of a connection manager */
        assert_int_equal(ibv_destroy_qp(side->qp), 0);
    if (side->cq != NULL)
        assert_int_equal(ibv_destroy_cq(side->cq), 0);
    if (side->completions != NULL)
        assert_int_equal(ibv_destroy_comp_channel(side->completions), 0);
    if (side->id != NULL)
        assert_int_equal(rdma_destroy_id(side->id), 0);
    if (side->channel != NULL)
        rdma_destroy_event_channel(side->channel);
    if (side->has_file)
        munmap(side->memory, side->size);
    else if (!side->mapped && !side->borrowed)
        free(side->memory);
}

void close_with_pd(struct side *side)
{
    close_side(side);
    assert_int_equal(ibv_dealloc_pd(side->pd), 0);
}

void close_pair(struct pair *pair)
{
    close_side(&pair->client);
    close_side(&pair->server);
    if (pair->srq != NULL)
        assert_int_equal(ibv_destroy_srq(pair->srq), 0);
    if (pair->srq_pd != NULL)
        assert_int_equal(ibv_dealloc_pd(pair->srq_pd), 0);
    if (pair->client.pd != NULL && !pair->client.borrowed)
        assert_int_equal(ibv_dealloc_pd(pair->client.pd), 0);
    if (pair->server.pd != NULL && !pair->server.borrowed)
        assert_int_equal(ibv_dealloc_pd(pair->server.pd), 0);
    if (pair->listener != NULL)
        assert_int_equal(rdma_destroy_id(pair->listener), 0);
    if (pair->listen_channel != NULL)
        rdma_destroy_event_channel(pair->listen_channel);
}

int post(struct side *from, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t offset, size_t length,
        const struct side *to, size_t to_offset, unsigned flags)
{
    struct ibv_sge sge = sge_of(from, offset, length);
    struct ibv_send_wr wr = {.wr_id = wr_id,
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = opcode,
            .send_flags = (unsigned)IBV_SEND_SIGNALED | flags,
            .imm_data = htonl(0x87654321)};
    if (to != NULL) {
        wr.wr.rdma.remote_addr = (uintptr_t)to->memory + to_offset;
        wr.wr.rdma.rkey = to->mr->rkey;
    }
    return post_wr(from, wr);
}

void post_and_expect(struct side *from, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t offset, size_t length,
        const struct side *to, size_t to_offset, enum ibv_wc_status status)
{
    assert_int_equal(post(from, opcode, wr_id, offset, length, to, to_offset, 0), 0);
    expect_completion(from->cq, wr_id, status);
}

int post_atomic(struct side *from, enum ibv_wr_opcode opcode, uint64_t wr_id, const struct side *to, size_t to_offset,
        uint64_t compare_add, uint64_t swap)
{
    struct ibv_sge sge = sge_of(from, 0, 8);
    return post_wr(from, (struct ibv_send_wr){.wr_id = wr_id,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = opcode,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.atomic = {.remote_addr = (uintptr_t)to->memory + to_offset,
                                         .compare_add = compare_add,
                                         .swap = swap,
                                         .rkey = to->mr->rkey}});
}

int post_wr(struct side *from, struct ibv_send_wr wr)
{
    struct ibv_send_wr *bad = NULL;
    return ibv_post_send(from->qp, &wr, &bad);
}

void post_wr_and_expect(struct side *from, struct ibv_send_wr wr, enum ibv_wc_status status)
{
    assert_int_equal(post_wr(from, wr), 0);
    expect_completion(from->cq, wr.wr_id, status);
}

struct ibv_sge sge_of(const struct side *side, size_t offset, size_t length)
{
    return (struct ibv_sge){
            .addr = (uintptr_t)side->memory + offset, .length = (uint32_t)length, .lkey = side->mr->lkey};
}

int post_receive(struct side *side, uint64_t wr_id, size_t offset, size_t length)
{
    struct ibv_sge sge = sge_of(side, offset, length);
    return post_receive_list(side->qp, wr_id, &sge, 1);
}

int post_receive_list(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge *sges, int count)
{
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sges, .num_sge = count}, *bad = NULL;
    return ibv_post_recv(qp, &wr, &bad);
}

int post_empty_receive(struct ibv_qp *qp, uint64_t wr_id)
{
    return post_receive_list(qp, wr_id, NULL, 0);
}

int post_empty_send(struct ibv_qp *qp)
{
    return post_wr(
            &(struct side){.qp = qp}, (struct ibv_send_wr){.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED});
}

int post_shared_receive(struct ibv_srq *srq, const struct side *side, uint64_t wr_id, size_t offset, size_t length)
{
    struct ibv_sge sge = sge_of(side, offset, length);
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
    return ibv_post_srq_recv(srq, &wr, &bad);
}

struct ibv_async_event next_async(struct ibv_context *context, enum ibv_event_type type)
{
    struct ibv_async_event event;
    expect_readable(context->async_fd);
    assert_int_equal(ibv_get_async_event(context, &event), 0);
    assert_string_equal(ibv_event_type_str(event.event_type), ibv_event_type_str(type));
    return event;
}

void expect_async(struct ibv_context *context, enum ibv_event_type type, const void *element)
{
    struct ibv_async_event event = next_async(context, type);
    assert_ptr_equal(event.element.qp, element);
    ibv_ack_async_event(&event);
}

struct ibv_cq *take_cq_event(struct ibv_comp_channel *channel)
{
    struct ibv_cq *cq = NULL;
    void *context = NULL;
    expect_readable(channel->fd);
    assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    return cq;
}

pthread_t start_waiting_call(void *(*call)(void *), void *argument)
{
    pthread_t thread;
    struct timespec soon;
    assert_int_equal(pthread_create(&thread, NULL, call, argument), 0);
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 100000000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    assert_int_equal(pthread_timedjoin_np(thread, NULL, &soon), ETIMEDOUT);
    return thread;
}

void finish_waiting_call(pthread_t thread)
{
    void *result = NULL;
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
}

struct ibv_qp_attr query(struct ibv_qp *qp, int mask)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(qp, &attr, mask, &init), 0);
    return attr;
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    return query(qp, IBV_QP_STATE).qp_state;
}

void to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = everything};
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
}

int enter_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void to_reset(struct ibv_qp *qp)
{
    assert_int_equal(enter_state(qp, IBV_QPS_RESET), 0);
}

bool is_over(const char *path)
{
    const char *chosen = getenv("SOFTRDMA_TRANSPORT");
    return chosen != NULL && strcmp(chosen, path) == 0;
}

bool is_over_roce(void)
{
    return is_over("roce");
}

void skip_over_roce(void)
{
    if (is_over_roce())
        skip();
}

int set_up_pair(void **state, const struct options *options)
{
    *state = test_malloc(sizeof(struct pair));
    open_pair(*state, options);
    return 0;
}

int connected(void **state)
{
    return set_up_pair(state, NULL);
}

int tear_down_pair(void **state)
{
    close_pair(*state);
    test_free(*state);
    return 0;
}

struct ibv_ah_attr own_address(struct ibv_context *context)
{
    struct ibv_ah_attr address = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
    assert_int_equal(ibv_query_gid(context, 1, 0, &address.grh.dgid), 0);
    return address;
}

int modify_to_rtr(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
    attr->qp_state = IBV_QPS_RTR;
    return ibv_modify_qp(qp, attr,
            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                    IBV_QP_MIN_RNR_TIMER);
}

int modify_to_rts(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
    attr->qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(qp, attr,
            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                    IBV_QP_MAX_QP_RD_ATOMIC);
}

struct ibv_qp_attr connection_to(struct ibv_context *context, uint32_t peer)
{
    return (struct ibv_qp_attr){.path_mtu = IBV_MTU_1024,
            .dest_qp_num = peer,
            .max_dest_rd_atomic = 1,
            .min_rnr_timer = 12,
            .ah_attr = own_address(context),
            .timeout = 14,
            .retry_cnt = 7,
            .rnr_retry = 7,
            .max_rd_atomic = 1};
}

void connect_qp(struct ibv_qp *qp, struct ibv_qp_attr attr)
{
    to_init(qp);
    assert_int_equal(modify_to_rtr(qp, &attr), 0);
    assert_int_equal(modify_to_rts(qp, &attr), 0);
}

struct ibv_mr *create_mr(struct ibv_pd *pd, void *memory, size_t length, int access)
{
    struct ibv_mr *mr = (ibv_reg_mr)(pd, memory, length, access);
    assert_non_null(mr);
    return mr;
}

struct ibv_srq *create_srq(struct ibv_pd *pd, uint32_t depth)
{
    struct ibv_srq *srq = ibv_create_srq(pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = depth, .max_sge = 4}});
    assert_non_null(srq);
    return srq;
}

struct ibv_qp *create_plain_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type, unsigned depth)
{
    struct ibv_qp_init_attr attr = {.send_cq = cq,
            .recv_cq = cq,
            .qp_type = type,
            .cap = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);
    assert_non_null(qp);
    return qp;
}

void fill(uint8_t *memory, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; ++i)
        memory[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

void *map_file(size_t size, int flags, int *fd)
{
    char path[] = "/tmp/softrdma-test-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    unlink(path);
    assert_int_equal(ftruncate(file, (off_t)size), 0);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, file, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    if (fd != NULL)
        *fd = file;
    else
        close(file);
    return memory;
}

void expect_no_send_ops(struct side *side, uint64_t ops)
{
    struct ibv_qp_init_attr_ex attr = {.send_cq = side->cq,
            .recv_cq = side->cq,
            .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
            .qp_type = side->qp->qp_type,
            .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
            .pd = side->pd,
            .send_ops_flags = ops};
    errno = 0;
    expect_null(ibv_create_qp_ex(side->pd->context, &attr), EOPNOTSUPP);
}

int open_the_device(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    device = list == NULL ? NULL : ibv_open_device(list[0]);
    ibv_free_device_list(list);
    return device == NULL;
}

int close_the_device(void **state)
{
    return ibv_close_device(device);
}

int gid_index_of(const char *text)
{
    struct in6_addr wanted = {0};
    struct ibv_port_attr port;
    union ibv_gid gid;
    assert_int_equal(inet_pton(AF_INET6, text, &wanted), 1);
    assert_int_equal(ibv_query_port(device, 1, &port), 0);
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        assert_int_equal(ibv_query_gid(device, 1, i, &gid), 0);
        if (memcmp(gid.raw, &wanted, sizeof(gid.raw)) == 0)
            return i;
    }
    return no_gid;
}
