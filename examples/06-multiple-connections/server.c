// SPDX-License-Identifier: BSD-3-Clause
#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "names.h"
#include "status.h"

static const struct program program = {
        .purpose = "Reads the names of many clients at a time, until no other has come for --timeout seconds.",
        .operands = "",
        .operands_help = "",
        .timeout_s = NAMES_TIMEOUT_S,
        .retry_s = RETRY_NOT_OFFERED,
        .has_many_clients = true,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct rpma_peer *peer = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = names_collect(&args, peer, NULL);

    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
