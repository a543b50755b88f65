// SPDX-License-Identifier: BSD-3-Clause
// The first, second, third ... allocation of the device fails, until a run of the scenario has none that fails. In each
// run calls fail with ENOMEM only, a connection without memory is lost with a message, the program continues, and all
// resources are released. Then no allocation succeeds while the device makes each change that it must report.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <netinet/in.h>
#include <new>
#include <poll.h>
#include <sys/wait.h>
#include <vector>

#include "base/reserve.hpp"
#include "verbs/qp.hpp"

extern "C" {
#include "fixture.h"
}

namespace
{

constexpr int hang_s = 120; // limit of a call that does not return
constexpr ibv_qp_cap few{
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};

std::atomic<long> until_failure{0}; // number of allocations until one fails; 0 if none fails
std::atomic<long> to_fail{0};       // number of allocations that fail from that one
std::atomic<bool> has_failed{false};
std::atomic<long> live{0}; // allocations that exist
std::atomic<bool> is_exhausted{false};

bool fails_now() noexcept
{
    if (is_exhausted)
        return true;
    if (until_failure.load() == 0 || until_failure.fetch_sub(1) > 1)
        return false;
    until_failure = to_fail.fetch_sub(1) > 1 ? 1 : 0;
    has_failed = true;
    return true;
}

void *allocate(std::size_t size, std::size_t alignment)
{
    void *memory = fails_now() ? nullptr : aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (memory == nullptr)
        throw std::bad_alloc();
    ++live;
    return memory;
}

void release(void *memory) noexcept
{
    if (memory != nullptr)
        --live;
    free(memory);
}

} // namespace

void *operator new(std::size_t size)
{
    return allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}

// AddressSanitizer has its own operator, whose memory must not be passed to free().
void *operator new(std::size_t size, const std::nothrow_t &) noexcept
try {
    return allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
} catch (const std::bad_alloc &) {
    return nullptr;
}

void *operator new(std::size_t size, std::align_val_t alignment)
{
    return allocate(size, static_cast<std::size_t>(alignment));
}

void operator delete(void *memory) noexcept
{
    release(memory);
}

void operator delete(void *memory, std::size_t) noexcept
{
    release(memory);
}

void operator delete(void *memory, std::align_val_t) noexcept
{
    release(memory);
}

void operator delete(void *memory, std::size_t, std::align_val_t) noexcept
{
    release(memory);
}

extern "C" {
// Leaks are counted here instead. A leak check at the end of each of hundreds of processes takes minutes.
const char *__asan_default_options();
const char *__asan_default_options()
{
    return "leak_check_at_exit=0";
}

// The linker redirects the device's calls to these wrappers.
void *__real_calloc(std::size_t count, std::size_t size);
void *__wrap_calloc(std::size_t count, std::size_t size);
void *__real_malloc(std::size_t size);
void *__wrap_malloc(std::size_t size);

void *__wrap_calloc(std::size_t count, std::size_t size)
{
    return fails_now() ? (errno = ENOMEM, nullptr) : __real_calloc(count, size);
}

void *__wrap_malloc(std::size_t size)
{
    return fails_now() ? (errno = ENOMEM, nullptr) : __real_malloc(size);
}
}

namespace
{

bool connecting = false; // a call may fail because the connection no longer exists
const char *scenario_name = "";
long scenario_n = 0;

[[noreturn]] void give_up(const char *what, int error)
{
    printf("FAILED: %s with allocation %ld failing: %s: %s\n", scenario_name, scenario_n, what, strerror(error));
    fflush(stdout);
    _exit(1);
}

// Returns whether the call has succeeded. If not, memory was exhausted, or the connection is lost because of that.
bool good(const char *call, bool succeeded, int error)
{
    if (!succeeded && (!has_failed || (error != ENOMEM && (!connecting || (error != EINVAL && error != EHOSTUNREACH)))))
        give_up(call, error);
    return succeeded;
}

// Calls that return an errno value, -1 with errno, or NULL with errno.
#define CODE(call) succeeds(#call, [&] { return call; })
#define RETURNS(call) succeeds(#call, [&] { return (call) == 0 ? 0 : errno; })
#define MADE(call) succeeds(#call, [&] { return (call) != nullptr ? 0 : errno; })

template<typename Call>
bool succeeds(const char *text, Call call)
{
    const int error = call();
    return good(text, error == 0, error);
}

// Calls that release objects succeed when they are retried.
#define GONE(call) gone(#call, [&]() -> int { return call; })

template<typename Call>
void gone(const char *text, Call call)
{
    int error = call();
    for (int tries = 0; tries < 3 && error != 0 && (error == -1 ? errno : error) == ENOMEM && has_failed; ++tries)
        error = call();
    if (error != 0)
        give_up(text, error == -1 ? errno : error);
}

struct end {
    rdma_event_channel *channel = nullptr;
    rdma_cm_id *id = nullptr;
    ibv_pd *pd = nullptr;
    ibv_comp_channel *completions = nullptr;
    ibv_cq *cq = nullptr;
    ibv_srq *srq = nullptr;
    ibv_mr *mr = nullptr;
    bool established = false;
    bool over = false; // the connection was not established, or has ended
    bool left_timewait = false;
    alignas(64) char memory[64 * 1024] = {};
};

struct world {
    rdma_event_channel *channel = nullptr;
    rdma_cm_id *listener = nullptr;
    end client;
    end server;
};

world w;

bool create_queues(end &e, bool shared)
{
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 32};
    ibv_srq_init_attr srq{.srq_context = nullptr, .attr = {.max_wr = 64, .max_sge = 2, .srq_limit = 0}};
    if (!MADE(e.pd = ibv_alloc_pd(e.id->verbs)) || !MADE(e.completions = ibv_create_comp_channel(e.id->verbs)) ||
            !MADE(e.cq = ibv_create_cq(e.id->verbs, 256, nullptr, e.completions, 0)) ||
            (shared && !MADE(e.srq = ibv_create_srq(e.pd, &srq))))
        return false;
    attr.send_cq = attr.recv_cq = e.cq;
    attr.srq = e.srq;
    constexpr int access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return MADE(e.mr = (ibv_reg_mr)(e.pd, e.memory, sizeof(e.memory), access)) &&
           RETURNS(rdma_create_qp(e.id, e.pd, &attr));
}

bool post_receive(end &e, std::uint64_t id)
{
    ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(e.memory), .length = 32 * 1024, .lkey = e.mr->lkey};
    ibv_recv_wr wr{.wr_id = id, .next = nullptr, .sg_list = &piece, .num_sge = 1};
    ibv_recv_wr *bad = nullptr;
    if (e.srq != nullptr)
        return CODE(ibv_post_srq_recv(e.srq, &wr, &bad));
    return CODE(ibv_post_recv(e.id->qp, &wr, &bad));
}

rdma_conn_param parameters()
{
    rdma_conn_param p{};
    p.responder_resources = p.initiator_depth = 16;
    p.retry_count = p.rnr_retry_count = 7;
    return p;
}

bool listen_and_resolve()
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto *any = reinterpret_cast<sockaddr *>(&address);
    if (!MADE(w.channel = rdma_create_event_channel()) ||
            !RETURNS(rdma_create_id(w.channel, &w.listener, nullptr, RDMA_PS_TCP)) ||
            !RETURNS(rdma_bind_addr(w.listener, any)) || !RETURNS(rdma_listen(w.listener, 4)))
        return false;
    address.sin_port = rdma_get_src_port(w.listener);
    return MADE(w.client.channel = rdma_create_event_channel()) &&
           RETURNS(rdma_create_id(w.client.channel, &w.client.id, nullptr, RDMA_PS_TCP)) &&
           RETURNS(rdma_resolve_addr(w.client.id, nullptr, any, 1000));
}

bool accept_request(rdma_cm_id *id)
{
    w.server.id = id;
    connecting = true;
    rdma_conn_param p = parameters();
    return create_queues(w.server, true) && post_receive(w.server, 1) && post_receive(w.server, 2) &&
           RETURNS(rdma_accept(id, &p));
}

bool handle(end &e, rdma_cm_event_type type, int status)
{
    rdma_conn_param p = parameters();
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        return RETURNS(rdma_resolve_route(e.id, 1000));
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return create_queues(e, false) && RETURNS(rdma_connect(e.id, &p));
    case RDMA_CM_EVENT_ESTABLISHED:
        return e.established = true;
    case RDMA_CM_EVENT_ADDR_ERROR:
        return good("resolving the address", false, -status);
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return e.left_timewait = true;
    default:
        if (!has_failed && type != RDMA_CM_EVENT_DISCONNECTED)
            give_up(rdma_event_str(type), 0);
        e.over = true;
        return true;
    }
}

// Takes one event, of any channel. Returns false if memory is missing.
bool take_event(rdma_event_channel *channel)
{
    rdma_cm_event *event = nullptr;
    if (!RETURNS(rdma_get_cm_event(channel, &event)))
        return false;
    const rdma_cm_event_type type = event->event;
    rdma_cm_id *const id = event->id;
    const int status = event->status;
    GONE(rdma_ack_cm_event(event));
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
        return accept_request(id);
    return handle(id == w.client.id ? w.client : w.server, type, status);
}

// Takes events until one end has the wanted state.
template<typename Wanted>
bool events_until(Wanted wanted)
{
    while (!wanted()) {
        pollfd fds[] = {{.fd = w.channel->fd, .events = POLLIN, .revents = 0},
                {.fd = w.client.channel->fd, .events = POLLIN, .revents = 0}};
        if (poll(fds, 2, time_limit_ms) <= 0)
            give_up("no event comes", ETIMEDOUT);
        for (const pollfd &fd : fds) {
            if (fd.revents != 0 && !take_event(fd.fd == w.channel->fd ? w.channel : w.client.channel))
                return false;
        }
    }
    return true;
}

// Waits for the completion and returns whether it is a success; false if it does not arrive in time.
bool completes(end &e, std::uint64_t id)
{
    for (const long start = now_ms(); now_ms() - start < time_limit_ms;) {
        ibv_wc wc{};
        const int count = ibv_poll_cq(e.cq, 1, &wc);
        if (count < 0 && !good("ibv_poll_cq", false, errno))
            continue;
        if (count > 0 && wc.wr_id == id) {
            if (wc.status != IBV_WC_SUCCESS && !has_failed)
                give_up(ibv_wc_status_str(wc.status), 0);
            return wc.status == IBV_WC_SUCCESS;
        }
    }
    give_up("nothing completes", ETIMEDOUT);
}

bool transfer(ibv_wr_opcode opcode, std::uint32_t length, std::uint64_t receive)
{
    ibv_sge piece{
            .addr = reinterpret_cast<std::uintptr_t>(w.client.memory), .length = length, .lkey = w.client.mr->lkey};
    ibv_send_wr wr{};
    wr.wr_id = 100 + static_cast<std::uint64_t>(opcode);
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    const auto to = reinterpret_cast<std::uintptr_t>(w.server.memory);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic = {.remote_addr = to, .compare_add = 1, .swap = 0, .rkey = w.server.mr->rkey};
    } else {
        wr.wr.rdma = {.remote_addr = to, .rkey = w.server.mr->rkey};
    }
    ibv_send_wr *bad = nullptr;
    return CODE(ibv_post_send(w.client.id->qp, &wr, &bad)) && completes(w.client, wr.wr_id) &&
           (receive == 0 || completes(w.server, receive));
}

bool wait_for_a_message()
{
    ibv_cq *cq = nullptr;
    void *cookie = nullptr;
    if (!CODE(ibv_req_notify_cq(w.server.cq, 0)) || !transfer(IBV_WR_SEND, 100, 0))
        return false;
    pollfd readable{.fd = w.server.completions->fd, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, time_limit_ms) != 1)
        give_up("no completion event", ETIMEDOUT);
    if (!RETURNS(ibv_get_cq_event(w.server.completions, &cq, &cookie)))
        return false;
    ibv_ack_cq_events(cq, 1);
    return completes(w.server, 1);
}

bool connect_and_use()
{
    if (!listen_and_resolve() ||
            !events_until([] { return w.client.over || (w.client.established && w.server.established); }) ||
            w.client.over)
        return false;
    return wait_for_a_message() && transfer(IBV_WR_SEND, 20000, 2) && transfer(IBV_WR_RDMA_WRITE, 32, 0) &&
           transfer(IBV_WR_RDMA_WRITE, 60000, 0) && transfer(IBV_WR_RDMA_READ, 60000, 0) &&
           transfer(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0) && RETURNS(rdma_disconnect(w.client.id)) &&
           events_until([] { return w.server.over; }) && RETURNS(rdma_disconnect(w.server.id)) &&
           events_until([] { return w.client.over; });
}

// No memory during its lifetime, and no reserve of the device.
class exhaustion
{
public:
    exhaustion()
    {
        constexpr std::size_t more_than_reserved = 1000;
        places_.reserve(more_than_reserved);
        has_failed = true;
        is_exhausted = true;
        try {
            for (;;)
                places_.push_back(softrdma::reserve::allocate(1));
        } catch (const std::bad_alloc &) {
        }
    }
    ~exhaustion()
    {
        is_exhausted = false;
        for (void *place : places_)
            softrdma::reserve::release(place);
    }
    exhaustion(const exhaustion &) = delete;
    exhaustion &operator=(const exhaustion &) = delete;

private:
    std::vector<void *> places_;
};

// Connects, and then ends both queue pairs and the connection without memory.
bool end_without_memory()
{
    if (!listen_and_resolve() || !events_until([] { return w.client.established && w.server.established; }) ||
            !transfer(IBV_WR_SEND, 100, 1) || !post_receive(w.client, 3))
        return false;
    {
        const exhaustion no_memory;
        if (enter_state(w.client.id->qp, IBV_QPS_ERR) != 0 || enter_state(w.server.id->qp, IBV_QPS_ERR) != 0)
            give_up("ibv_modify_qp to ERR", errno);
    }
    completes(w.client, 3);
    expect_async(w.server.id->verbs, IBV_EVENT_QP_LAST_WQE_REACHED, w.server.id->qp);
    rdma_disconnect(w.client.id);
    events_until([] { return w.server.over; });
    {
        const exhaustion no_memory;
        if (rdma_disconnect(w.server.id) != 0)
            give_up("rdma_disconnect", errno);
    }
    return events_until([] { return w.server.left_timewait; });
}

// Returns a queue pair in the state INIT.
ibv_qp *create_in_init(end &e)
{
    ibv_qp *qp = create_plain_qp(e.pd, e.cq, IBV_QPT_RC, 4);
    to_init(qp);
    return qp;
}

// Waits until the progress thread has returned the call of a retry.
void retry_without_memory(softrdma::queue_pair &qp)
{
    const auto is_deferred = [&] {
        const softrdma::lock_guard lock(qp.lock());
        return qp.end().retry_call.entry.empty();
    };
    {
        const exhaustion no_memory;
        const softrdma::lock_guard lock(qp.lock());
        qp.end().try_again_later(true);
    }
    AWAIT(!is_deferred());
}

// Overflows a completion queue, which its queue pairs have in common, and breaks the protocol.
bool fail_without_memory()
{
    ibv_context *context = nullptr;
    end &e = *new (&w.client) end{};
    ibv_device **list = ibv_get_device_list(nullptr);
    if (!MADE(context = ibv_open_device(list[0])) || !MADE(e.pd = ibv_alloc_pd(context)) ||
            !MADE(e.cq = ibv_create_cq(context, 1, nullptr, nullptr, 0)))
        return false;
    ibv_qp *const ended = create_in_init(e);
    ibv_qp *const other = create_in_init(e);
    ibv_qp *const broken = create_in_init(e);
    retry_without_memory(softrdma::qp_of(broken));
    {
        const exhaustion no_memory;
        const softrdma::lock_guard lock(softrdma::cq_of(e.cq).lock());
        softrdma::qp_of(broken).receives().report_violation();
    }
    GONE(ibv_destroy_qp(broken));
    enter_state(ended, IBV_QPS_ERR);
    {
        const exhaustion no_memory;
        if (post_empty_send(ended) != 0 || post_empty_send(ended) != 0)
            give_up("ibv_post_send", EINVAL);
        usleep(50000); // the progress thread finds no memory either
    }
    expect_async(context, IBV_EVENT_CQ_ERR, e.cq);
    expect_async(context, IBV_EVENT_QP_FATAL, other);
    GONE(ibv_destroy_qp(ended));
    GONE(ibv_destroy_qp(other));
    GONE(ibv_destroy_cq(e.cq));
    GONE(ibv_dealloc_pd(e.pd));
    GONE(ibv_close_device(context));
    ibv_free_device_list(list);
    return true;
}

void close_end(end &e)
{
    if (e.id != nullptr && e.id->qp != nullptr)
        rdma_destroy_qp(e.id);
    if (e.mr != nullptr)
        GONE(ibv_dereg_mr(e.mr));
    if (e.srq != nullptr)
        GONE(ibv_destroy_srq(e.srq));
    if (e.cq != nullptr)
        GONE(ibv_destroy_cq(e.cq));
    if (e.completions != nullptr)
        GONE(ibv_destroy_comp_channel(e.completions));
    if (e.pd != nullptr)
        GONE(ibv_dealloc_pd(e.pd));
    if (e.id != nullptr)
        GONE(rdma_destroy_id(e.id));
    if (e.channel != nullptr)
        rdma_destroy_event_channel(e.channel);
}

bool connect_and_close(bool (*use)())
{
    new (&w) world{};
    const bool all = use();
    close_end(w.client);
    close_end(w.server);
    if (w.listener != nullptr)
        GONE(rdma_destroy_id(w.listener));
    if (w.channel != nullptr)
        rdma_destroy_event_channel(w.channel);
    return all;
}

// Opens its own device, and a queue pair that is connected to itself without the connection manager.
bool direct()
{
    ibv_context *context = nullptr;
    end &e = *new (&w.client) end{};
    ibv_qp *qp = nullptr;
    ibv_device **list = ibv_get_device_list(nullptr);
    bool all = MADE(list) && MADE(context = ibv_open_device(list[0])) && MADE(e.pd = ibv_alloc_pd(context)) &&
               MADE(e.cq = ibv_create_cq(context, 16, nullptr, nullptr, 0));
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = e.cq;
    attr.cap = few;
    all = all && MADE(qp = ibv_create_qp(e.pd, &attr));
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = qp == nullptr ? 0 : qp->qp_num;
    to.ah_attr.port_num = 1;
    to.ah_attr.is_global = 1;
    to.timeout = 14;
    to.retry_cnt = to.rnr_retry = 7;
    all = all && CODE(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) &&
          RETURNS(ibv_query_gid(context, 1, 0, &to.ah_attr.grh.dgid)) && CODE(modify_to_rtr(qp, &to)) &&
          CODE(modify_to_rts(qp, &to));
    if (qp != nullptr)
        GONE(ibv_destroy_qp(qp));
    close_end(e);
    if (context != nullptr)
        GONE(ibv_close_device(context));
    if (list != nullptr)
        ibv_free_device_list(list);
    return all;
}

// Creates an identifier without its own channel, and queues that belong to it.
bool endpoint()
{
    rdma_addrinfo *info = nullptr;
    rdma_addrinfo hints{};
    hints.ai_flags = RAI_PASSIVE;
    hints.ai_port_space = RDMA_PS_TCP;
    const int found = rdma_getaddrinfo(const_cast<char *>("127.0.0.1"), const_cast<char *>("0"), &hints, &info);
    if (found != 0 && !has_failed)
        give_up("rdma_getaddrinfo", errno);
    if (found != 0)
        return false;
    rdma_cm_id *id = nullptr;
    ibv_qp_init_attr attr{};
    attr.cap = few;
    const bool all = RETURNS(rdma_create_ep(&id, info, nullptr, &attr)) && RETURNS(rdma_listen(id, 1));
    if (id != nullptr)
        rdma_destroy_ep(id);
    rdma_freeaddrinfo(info);
    return all;
}

struct scenario {
    const char *name;
    bool (*run)();
};

constexpr scenario scenarios[] = {{"a connection", [] { return connect_and_close(connect_and_use); }},
        {"a device", direct}, {"an endpoint", endpoint}};
constexpr scenario without_memory[] = {
        {"the end of a connection", [] { return connect_and_close(end_without_memory); }},
        {"failures", fail_without_memory}};

// Runs a scenario in which the n-th allocation fails, and `many` after it. Returns false if it allocates less often.
bool run_failing(const scenario &s, long n, long many)
{
    scenario_name = s.name;
    scenario_n = n;
    connecting = false;
    has_failed = false;
    to_fail = many;
    until_failure = n;
    alarm(hang_s);
    const bool all = s.run();
    until_failure = 0;
    alarm(0);
    if (!all && !has_failed)
        give_up("fails although nothing was missing", 0);
    return has_failed;
}

// Runs in a process that has not used the device. After the failure, the process must be able to use it.
bool fails_in_fresh_process(const scenario &s, long n, long many)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const bool failed = run_failing(s, n, many);
        run_failing(s, 0, 0);
        exit(failed ? 0 : 3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3)) {
        printf("FAILED: %s with allocation %ld failing, in a fresh process: %s %d\n", s.name, n,
                WIFSIGNALED(status) ? "signal" : "exit code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        exit(1);
    }
    return WEXITSTATUS(status) == 0;
}

unsigned open_descriptors()
{
    return entries_in("/proc/self/fd", "");
}

// Memory held by timers is released with them.
bool nothing_is_left(long allocations, unsigned descriptors)
{
    for (const long start = now_ms(); now_ms() - start < time_limit_ms; usleep(20000)) {
        if (live <= allocations && open_descriptors() <= descriptors)
            return true;
    }
    printf("FAILED: %ld allocations are left over, and %u descriptors became %u\n", live - allocations, descriptors,
            open_descriptors());
    return false;
}

void sweep(bool (*fails)(const scenario &s, long n, long many), const scenario &s, long many)
{
    long n = 1;
    while (fails(s, n, many))
        ++n;
    printf("%s%s: %ld allocations, %ld of them at a time\n", s.name,
            fails == fails_in_fresh_process ? " in a fresh process" : "", n - 1, many);
}

} // namespace

int main()
{
    for (const scenario &s : scenarios)
        for (const long many : {1, 3})
            sweep(fails_in_fresh_process, s, many);
    constexpr int until_steady = 40; // the device keeps the last 64 event channels that were destroyed
    for (int i = 0; i < until_steady; ++i)
        for (const scenario &s : scenarios)
            run_failing(s, 0, 0);
    const long allocations = live;
    const unsigned descriptors = open_descriptors();
    // Timers of closed connections remain for 2 s. Ten failures at a time can therefore exhaust the reserve of the
    // device.
    for (const scenario &s : scenarios)
        for (const long many : {1, 3, 10})
            sweep(run_failing, s, many);
    for (const scenario &s : without_memory)
        run_failing(s, 0, 0);
    return nothing_is_left(allocations, descriptors) ? 0 : 1;
}
