// SPDX-License-Identifier: BSD-3-Clause
#include "immediate.h"

#include <arpa/inet.h>
#include <err.h>
#include <inttypes.h>

#include "completion.h"
#include "status.h"

uint32_t immediate_parse(const struct arguments *args)
{
    const uint64_t imm = arguments_number(args, 0, "<imm>", 0);
    if (imm > UINT32_MAX)
        usage_error("<imm>: %" PRIu64 " exceeds %" PRIu32, imm, UINT32_MAX);
    return (uint32_t)imm;
}

int immediate_wait(const struct arguments *args, struct rpma_conn *conn, const char *op_context,
        enum ibv_wc_opcode opcode, struct ibv_wc *wc, uint32_t *imm)
{
    int status = next_completion(args, conn, NULL, wc);
    if (status == STATUS_OK)
        status = check_completion(wc);
    if (status != STATUS_OK)
        return status;

    if (wc->wr_id != (uintptr_t)op_context || wc->opcode != opcode || !(wc->wc_flags & IBV_WC_WITH_IMM)) {
        warnx("the peer sent no immediate data (does it run another example?)");
        return STATUS_FAILED;
    }
    *imm = ntohl(wc->imm_data);
    return STATUS_OK;
}
