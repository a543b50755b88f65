// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "blocks.h"
#include "completion.h"
#include "connection.h"
#include "handshake.h"
#include "memory.h"
#include "region.h"
#include "status.h"

enum {
    DEFAULT_BLOCKS = 1000,
    DEFAULT_SQ_SIZE = 16,
    MIN_SQ_SIZE = 2,
    MAX_SQ_SIZE = 1024
};

static const char write_name[] = "rpma_write";
static const char flush_name[] = "rpma_flush";

static const struct program program = {
        .purpose = "Writes many more blocks than fit into the send queue, asking for a completion only now and then.",
        .operands = "[<blocks> [<sq-size>]]",
        .operands_help = "  <blocks>         blocks to write, 1 to 1024 (default 1000)\n"
                         "  <sq-size>        maximum outstanding operations, 2 to 1024 (default 16)\n",
        .max_operands = 2,
        .timeout_s = 30,
};

/*
 * State of the send queue. Polling the completion of an operation frees its entry and those of earlier operations. The
 * last operation of each batch requests the completion.
 */
struct window {
    uint64_t size;
    uint64_t batch;
    uint64_t posted;
    uint64_t finished;
    uint64_t completions;
};

struct transfer {
    const struct arguments *args;
    struct rpma_conn *conn;
    struct rpma_mr_local *src;
    struct rpma_mr_remote *dst;
    size_t dst_offset;
    struct window window;
};

static uint64_t parse_within(
        const struct arguments *args, int index, const char *name, uint64_t fallback, uint64_t min, uint64_t max)
{
    const uint64_t value = arguments_number(args, index, name, fallback);
    if (value < min || value > max)
        usage_error("%s: %" PRIu64 " is not from %" PRIu64 " to %" PRIu64, name, value, min, max);
    return value;
}

/* One CQ entry for each outstanding operation, because every operation completes if the connection fails. */
static int make_cfg(uint32_t sq_size, struct rpma_conn_cfg **cfg)
{
    int status = check("rpma_conn_cfg_new", rpma_conn_cfg_new(cfg));
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_set_sq_size", rpma_conn_cfg_set_sq_size(*cfg, sq_size));
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_set_cq_size", rpma_conn_cfg_set_cq_size(*cfg, sq_size));
    if (status == STATUS_OK) /* this side receives no messages */
        status = check("rpma_conn_cfg_set_rq_size", rpma_conn_cfg_set_rq_size(*cfg, 1));
    return status;
}

/* Polls one completion: of the last operation of a batch, or of the flush. */
static int collect(struct transfer *transfer, uint64_t finished)
{
    struct ibv_wc wc;
    int status = next_completion(transfer->args, transfer->conn, NULL, &wc);
    if (status == STATUS_OK)
        status = check_completion(&wc);
    if (status == STATUS_OK) {
        ++transfer->window.completions;
        transfer->window.finished = finished;
    }
    return status;
}

static int make_room(struct transfer *transfer)
{
    const struct window *window = &transfer->window;
    if (window->posted - window->finished < window->size)
        return STATUS_OK;
    return collect(transfer, window->finished + window->batch);
}

static int write_block(struct transfer *transfer, uint64_t index)
{
    struct window *window = &transfer->window;
    const size_t offset = (size_t)index * BLOCK_SIZE;
    const bool is_last_of_batch = (window->posted + 1) % window->batch == 0;

    int status = make_room(transfer);
    if (status == STATUS_OK)
        status = check(write_name,
                rpma_write(transfer->conn, transfer->dst, transfer->dst_offset + offset, transfer->src, offset,
                        BLOCK_SIZE, is_last_of_batch ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR,
                        write_name));
    if (status == STATUS_OK)
        ++window->posted;
    return status;
}

static int flush_blocks(struct transfer *transfer, uint64_t count)
{
    struct window *window = &transfer->window;

    int status = make_room(transfer);
    if (status == STATUS_OK)
        status = check(
                flush_name, rpma_flush(transfer->conn, transfer->dst, transfer->dst_offset, (size_t)count * BLOCK_SIZE,
                                    RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, flush_name));
    while (status == STATUS_OK && window->finished + window->batch <= window->posted)
        status = collect(transfer, window->finished + window->batch);
    return status ? status : collect(transfer, window->posted);
}

static int write_blocks(struct transfer *transfer, uint64_t count)
{
    struct rpma_conn_private_data pdata = {0};
    const size_t size = (size_t)count * BLOCK_SIZE;

    int status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(transfer->conn, &pdata));
    if (status == STATUS_OK)
        status = handshake_parse(&pdata, size, &transfer->dst, &transfer->dst_offset, NULL);
    for (uint64_t index = 0; index < count && status == STATUS_OK; ++index)
        status = write_block(transfer, index);
    if (status == STATUS_OK)
        status = flush_blocks(transfer, count);
    if (status == STATUS_OK)
        printf("Blocks written: %" PRIu64 "\nCompletions collected: %" PRIu64 "\n", count,
                transfer->window.completions);

    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&transfer->dst));
    return status;
}

static void number_blocks(const struct memory *memory)
{
    for (uint64_t index = 0; index < BLOCK_COUNT; ++index) {
        const uint64_t number = index + 1;
        memcpy(memory->base + index * BLOCK_SIZE, &number, sizeof(number));
    }
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const uint64_t count = parse_within(&args, 0, "<blocks>", DEFAULT_BLOCKS, 1, BLOCK_COUNT);
    const uint64_t sq_size = parse_within(&args, 1, "<sq-size>", DEFAULT_SQ_SIZE, MIN_SQ_SIZE, MAX_SQ_SIZE);
    struct transfer transfer = {.args = &args, .window = {.size = sq_size, .batch = sq_size / 2}};
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_conn_cfg *cfg = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = memory_allocate(&memory, BLOCKS_SIZE);
    if (status == STATUS_OK) {
        number_blocks(&memory);
        status = register_memory(peer, &memory, RPMA_MR_USAGE_WRITE_SRC, &transfer.src);
    }
    if (status == STATUS_OK)
        status = make_cfg((uint32_t)sq_size, &cfg);
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, cfg, NULL, &transfer.conn);
    if (status == STATUS_OK)
        status = write_blocks(&transfer, count);
    if (status == STATUS_OK)
        status = disconnect(&args, transfer.conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&transfer.conn));
    status |= check("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&transfer.src));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
