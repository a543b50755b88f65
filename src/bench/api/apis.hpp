// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "rpma.hpp"
#include "tcp.hpp"
#include "verbs.hpp"

// APIs that need a server process. Each structure is a parameter of the engine's templates.
namespace bench
{

struct rpma_api {
    using device = rpma::device;
    using region = rpma::region;
    using connection = rpma::connection;
    using listener = rpma::listener;
};

struct verbs_api {
    using device = verbs::device;
    using region = verbs::region;
    using connection = verbs::connection;
    using listener = verbs::listener;
};

struct tcp_api {
    using device = tcp::device;
    using region = tcp::region;
    using connection = tcp::connection;
    using listener = tcp::listener;
};

} // namespace bench
