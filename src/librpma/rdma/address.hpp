// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <netdb.h>
#include <rdma/rdma_cma.h>

#include "rdma/handle.hpp"

namespace rpma::rdma
{

errc free_addrinfo(const library &from, rdma_addrinfo *info);
using addrinfo_handle = handle<rdma_addrinfo, free_addrinfo>;

enum class side {
    active,
    passive
};

// Candidates for an RC connection over RDMA_PS_TCP, linked by ai_next. port may be NULL; errc::inval if it is invalid.
result<addrinfo_handle> resolve_name(const library &by, const char *addr, const char *port, side which);

// Numeric socket address, "[::1]:7204" or "10.0.0.1:7204", for logs.
class address_text
{
public:
    explicit address_text(const sockaddr *address);
    const char *c_str() const { return text_; }

private:
    char text_[NI_MAXHOST + NI_MAXSERV];
};

// In a Debug build, logs the GIDs of both ends of a resolved identifier.
void log_gids(const rdma_cm_id *id);

} // namespace rpma::rdma
