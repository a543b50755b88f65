// SPDX-License-Identifier: BSD-3-Clause
#include "direct_write.h"

#include <err.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

bool direct_write_parse(const struct arguments *args, int index)
{
    const char *word = arguments_operand(args, index);
    if (!word || strcmp(word, "off") == 0)
        return false;
    if (strcmp(word, "on") != 0)
        usage_error("direct write to PMem is either on or off, not '%s'", word);
    return true;
}

int direct_write_usage(const struct memory *memory, bool direct_write)
{
    if (direct_write && !memory->is_persistent)
        warnx("WARNING: on an ordinary file `on` holds only for a device that makes files durable, as softrdma does");

    const int usage = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
    return memory->map ? usage | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : usage;
}

int direct_write_describe(
        bool direct_write, const struct rpma_mr_local *mr, size_t data_offset, struct handshake *handshake)
{
    struct rpma_peer_cfg *pcfg = NULL;
    int status = check("rpma_peer_cfg_new", rpma_peer_cfg_new(&pcfg));
    if (status == STATUS_OK)
        status = check(
                "rpma_peer_cfg_set_direct_write_to_pmem", rpma_peer_cfg_set_direct_write_to_pmem(pcfg, direct_write));
    if (status == STATUS_OK)
        status = handshake_make(handshake, mr, data_offset, pcfg);

    status |= check("rpma_peer_cfg_delete", rpma_peer_cfg_delete(&pcfg));
    return status;
}

int direct_write_flush_type(const struct rpma_peer_cfg *pcfg, enum rpma_flush_type *type)
{
    bool direct_write = false;
    int status = STATUS_OK;
    if (pcfg)
        status = check(
                "rpma_peer_cfg_get_direct_write_to_pmem", rpma_peer_cfg_get_direct_write_to_pmem(pcfg, &direct_write));
    if (status != STATUS_OK)
        return status;

    *type = direct_write ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY;
    puts(direct_write ? "RPMA_FLUSH_TYPE_PERSISTENT is supported"
                      : "RPMA_FLUSH_TYPE_PERSISTENT is not supported, using RPMA_FLUSH_TYPE_VISIBILITY");
    return STATUS_OK;
}
