// SPDX-License-Identifier: BSD-3-Clause
// Executes every data-path call in two phases, with BASE_CALLS and with BASE_CALLS + 1000 calls, and prints one line
// per phase. The profiler finds the phases by the function measured_phase, which excludes setup.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <librpma.h>

enum {
    base_calls = 100,
    measured_calls = 1000,
    region_size = 4096,
    no_opcode = -1,
    always = RPMA_F_COMPLETION_ALWAYS,
};

struct fixture {
    struct rpma_peer *peer;
    struct rpma_srq *srq;
    struct rpma_conn *conn;
    struct rpma_cq *cq;
    struct rpma_mr_local *local;
    struct rpma_mr_remote *remote;
};

static _Alignas(8) char region[region_size];
static const _Alignas(8) char word[8] = "atomic!";
static const uint32_t imm = 0x87654321;
static unsigned control_counter;

// Calls of the data path: name, opcodes of the work completion without and with native capabilities, which identify the
// path of the call, and the call.
#define HOT_CALLS(ROW)                                                                                                 \
    ROW(read, IBV_WC_RDMA_READ, IBV_WC_RDMA_READ, rpma_read(f->conn, f->local, 8, f->remote, 16, 64, always, f))       \
    ROW(write, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, rpma_write(f->conn, f->remote, 8, f->local, 16, 64, always, f))   \
    ROW(write_with_imm, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE,                                                          \
            rpma_write_with_imm(f->conn, f->remote, 8, f->local, 16, 64, always, imm, f))                              \
    ROW(send, IBV_WC_SEND, IBV_WC_SEND, rpma_send(f->conn, f->local, 8, 64, always, f))                                \
    ROW(send_with_imm, IBV_WC_SEND, IBV_WC_SEND, rpma_send_with_imm(f->conn, f->local, 8, 64, always, imm, f))         \
    ROW(recv, IBV_WC_RECV, IBV_WC_RECV, rpma_recv(f->conn, f->local, 8, 64, f))                                        \
    ROW(srq_recv, IBV_WC_RECV, IBV_WC_RECV, rpma_srq_recv(f->srq, f->local, 8, 64, f))                                 \
    ROW(get_wc, no_opcode, no_opcode, rpma_cq_get_wc(f->cq, 1, &(struct ibv_wc){0}, &(int){0}))                        \
    ROW(flush, IBV_WC_RDMA_READ, 8, rpma_flush(f->conn, f->remote, 8, 64, RPMA_FLUSH_TYPE_PERSISTENT, always, f))      \
    ROW(atomic_write, IBV_WC_RDMA_WRITE, 9, rpma_atomic_write(f->conn, f->remote, 8, word, always, f))

#define DEFINE_CALL(name, opcode, native_opcode, call)                                                                 \
    static int call_##name(struct fixture *f)                                                                          \
    {                                                                                                                  \
        return call;                                                                                                   \
    }
HOT_CALLS(DEFINE_CALL)

// Control: proves that the profile shows an allocation.
static int control_allocation(struct fixture *f)
{
    struct rpma_peer_cfg *cfg;
    int ret = rpma_peer_cfg_new(&cfg);
    return ret != 0 ? ret : rpma_peer_cfg_delete(&cfg);
}

// Control, never called by the library: proves that the disassembly check detects a lock and a system call.
int control_locks_and_calls(void);
__attribute__((noinline)) int control_locks_and_calls(void)
{
    __atomic_fetch_add(&control_counter, 1, __ATOMIC_SEQ_CST);
#if defined(__x86_64__)
    long ret;
    __asm__ volatile("syscall" : "=a"(ret) : "a"((long)SYS_getpid) : "rcx", "r11", "memory");
    return ret > 0 ? 0 : -1;
#elif defined(__aarch64__)
    __asm__ volatile("svc #0" ::: "memory");
    return 0;
#else
    return 0;
#endif
}

#define HOT_CALL(name, opcode, native_opcode, call) {#name, call_##name, opcode, native_opcode},

static const struct hot_call {
    const char *name;
    int (*call)(struct fixture *f);
    int opcode;
    int native_opcode;
} hot_calls[] = {HOT_CALLS(HOT_CALL){"control", control_allocation, no_opcode, no_opcode}};

static void require(int ret, const char *what)
{
    if (ret != 0) {
        fprintf(stderr, "hot_calls: %s failed: %s\n", what, rpma_err_2str(ret));
        exit(EXIT_FAILURE);
    }
}

// External and not inlined, because the profiler finds it by name.
int measured_phase(int (*call)(struct fixture *f), struct fixture *f, int calls);
__attribute__((noinline)) int measured_phase(int (*call)(struct fixture *f), struct fixture *f, int calls)
{
    int failed = 0;
    for (int i = 0; i < calls; i++) {
        failed |= call(f);
    }
    return failed;
}

static void set_up(struct fixture *f)
{
    struct ibv_context *context;
    struct rpma_peer_cfg *peer_cfg;
    struct rpma_conn_req *req;
    char descriptor[64];
    size_t descriptor_size;
    int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST |
                RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT | RPMA_MR_USAGE_SEND |
                RPMA_MR_USAGE_RECV;

    require(rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_REMOTE, &context), "get_ibv_context");
    require(strcmp(context->device->name, "null0") == 0 ? 0 : RPMA_E_PROVIDER, "finding the null provider");
    require(rpma_peer_new(context, &f->peer), "peer_new");
    require(rpma_mr_reg(f->peer, region, sizeof(region), usage, &f->local), "mr_reg");
    require(rpma_mr_get_descriptor_size(f->local, &descriptor_size), "mr_get_descriptor_size");
    require(descriptor_size <= sizeof(descriptor) ? 0 : RPMA_E_INVAL, "descriptor size check");
    require(rpma_mr_get_descriptor(f->local, descriptor), "mr_get_descriptor");
    require(rpma_mr_remote_from_descriptor(descriptor, descriptor_size, &f->remote), "mr_remote_from_descriptor");
    require(rpma_srq_new(f->peer, NULL, &f->srq), "srq_new");
    require(rpma_conn_req_new(f->peer, "127.0.0.1", "1234", NULL, &req), "conn_req_new");
    require(rpma_conn_req_connect(&req, NULL, &f->conn), "conn_req_connect");
    require(rpma_conn_get_cq(f->conn, &f->cq), "conn_get_cq");
    require(rpma_peer_cfg_new(&peer_cfg), "peer_cfg_new");
    require(rpma_peer_cfg_set_direct_write_to_pmem(peer_cfg, true), "peer_cfg_set_direct_write_to_pmem");
    require(rpma_conn_apply_remote_peer_cfg(f->conn, peer_cfg), "conn_apply_remote_peer_cfg");
    require(rpma_peer_cfg_delete(&peer_cfg), "peer_cfg_delete");
}

static void tear_down(struct fixture *f)
{
    require(rpma_conn_delete(&f->conn), "conn_delete");
    require(rpma_srq_delete(&f->srq), "srq_delete");
    require(rpma_mr_remote_delete(&f->remote), "mr_remote_delete");
    require(rpma_mr_dereg(&f->local), "mr_dereg");
    require(rpma_peer_delete(&f->peer), "peer_delete");
}

static const char *path_taken(struct fixture *f, const struct hot_call *hot)
{
    struct ibv_wc wc;
    if (hot->opcode == no_opcode) {
        return "only";
    }
    require(rpma_cq_get_wc(f->cq, 1, &wc, NULL), "cq_get_wc");
    if ((int)wc.opcode == hot->opcode) {
        return hot->opcode == hot->native_opcode ? "only" : "emulated";
    }
    require((int)wc.opcode == hot->native_opcode ? 0 : RPMA_E_UNKNOWN, hot->name);
    return "native";
}

int main(void)
{
    struct fixture f;
    set_up(&f);
    for (size_t i = 0; i < sizeof(hot_calls) / sizeof(hot_calls[0]); i++) {
        const struct hot_call *hot = &hot_calls[i];
        for (int calls = base_calls; calls <= base_calls + measured_calls; calls += measured_calls) {
            require(measured_phase(hot->call, &f, calls), hot->name);
            printf("%s %s %d\n", hot->name, path_taken(&f, hot), calls);
        }
    }
    tear_down(&f);
    return control_counter == 0 ? EXIT_SUCCESS : control_locks_and_calls();
}
