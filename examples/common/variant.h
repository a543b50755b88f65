// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_VARIANT_H
#define EXAMPLES_VARIANT_H 1

#include <librpma.h>

#include "arguments.h"

/* Sets the configuration of connections that distinguishes a variant of an example. NULL means the defaults of librpma.
 */
typedef int configure_conn(struct rpma_conn_cfg *cfg);

/* Body of a variant, called with a peer and its configuration. The example defines `context`. */
typedef int variant_body(
        const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg, const void *context);

/* Opens a peer, calls `body`, and closes the peer. Returns a status. */
int variant_run(const struct arguments *args, enum rpma_util_ibv_context_type side, configure_conn *configure,
        variant_body *body, const void *context);

#endif /* EXAMPLES_VARIANT_H */
