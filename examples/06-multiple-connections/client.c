// SPDX-License-Identifier: BSD-3-Clause
#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "names.h"
#include "status.h"

static const struct program program = {
        .purpose = "Lets the server read this client's name.",
        .operands = NAME_OPERANDS,
        .operands_help = NAME_OPERANDS_HELP,
        .min_operands = 1,
        .max_operands = 1,
        .timeout_s = 30,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const char *name = name_parse(&args);
    struct rpma_peer *peer = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = name_offer(&args, name, peer);

    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
