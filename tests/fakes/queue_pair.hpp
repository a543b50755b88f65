// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "stack.hpp"

namespace fake
{

// Creates a queue pair for an identifier. Returns nullptr and sets errno on error.
ibv_qp *make_qp(call &c, ibv_context *context, const ibv_qp_init_attr_ex &attributes);

void configure_queue_pair(ibv_context_ops &ops);

} // namespace fake
