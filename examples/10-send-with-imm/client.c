// SPDX-License-Identifier: BSD-3-Clause
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "completion.h"
#include "connection.h"
#include "immediate.h"
#include "memory.h"
#include "region.h"
#include "status.h"

enum {
    MESSAGE_SIZE = 1024
};

static const char send_name[] = "rpma_send_with_imm";

static const struct program program = {
        .purpose = "Sends immediate data to the server, with a word or without.",
        .operands = "<imm> [<word>]",
        .operands_help = IMMEDIATE_HELP "  <word>           a text of up to 1023 bytes (default: empty message)\n",
        .min_operands = 1,
        .max_operands = 2,
        .timeout_s = 30,
};

static const char *parse_word(const struct arguments *args)
{
    const char *word = arguments_operand(args, 1);
    if (word && strlen(word) >= MESSAGE_SIZE)
        usage_error("<word>: more than %d bytes", MESSAGE_SIZE - 1);
    return word;
}

/* An empty message needs no memory. */
static int send_word(const struct arguments *args, struct rpma_conn *conn, const char *word,
        const struct rpma_mr_local *mr, uint32_t imm)
{
    if (word)
        printf("Sending value '%s' with immediate data '%" PRIu32 "'\n", word, imm);
    else
        printf("Sending immediate data '%" PRIu32 "'\n", imm);

    const int status = check(send_name,
            rpma_send_with_imm(conn, mr, 0, word ? MESSAGE_SIZE : 0, RPMA_F_COMPLETION_ALWAYS, imm, send_name));
    return status ? status : wait_for_completion(args, conn, send_name);
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const char *word = parse_word(&args);
    uint32_t imm = immediate_parse(&args);
    const struct rpma_conn_private_data pdata = {.ptr = &imm, .len = sizeof(imm)};
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *mr = NULL;
    struct rpma_conn *conn = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK && word)
        status = memory_allocate(&memory, MESSAGE_SIZE);
    if (status == STATUS_OK && word) {
        strcpy(memory.base, word);
        status = register_memory(peer, &memory, RPMA_MR_USAGE_SEND, &mr);
    }
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, NULL, &pdata, &conn);
    if (status == STATUS_OK)
        status = send_word(&args, conn, word, mr, imm);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
