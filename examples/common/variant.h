// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_VARIANT_H
#define EXAMPLES_VARIANT_H 1

#include <librpma.h>

#include "arguments.h"

/* Difference between the variants of an example: the configuration of their connections. NULL for the defaults of
 * librpma. */
typedef int configure_conn(struct rpma_conn_cfg *cfg);

/* Function of each variant of an example, with a peer and the variant's configuration. The example defines context. */
typedef int variant_body(
        const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg, const void *context);

/* Opens a peer, calls body, and closes what was opened. Returns a status. */
int variant_run(const struct arguments *args, enum rpma_util_ibv_context_type side, configure_conn *configure,
        variant_body *body, const void *context);

#endif /* EXAMPLES_VARIANT_H */
