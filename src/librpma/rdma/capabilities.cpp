// SPDX-License-Identifier: BSD-3-Clause
#include "rdma/capabilities.hpp"

#include <algorithm>

#include "log.hpp"

namespace rpma::rdma
{

namespace
{

result<ibv_device_attr_ex> query_device(ibv_context *context)
{
    ibv_device_attr_ex attributes{};
    if (const int error = ibv_query_device_ex(context, nullptr, &attributes); error != 0)
        return log::provider_error(error > 0 ? error : errno, "ibv_query_device_ex");
    return attributes;
}

bool has_odp(const ibv_device_attr_ex &attributes)
{
    constexpr std::uint32_t needed = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    const ibv_odp_caps &odp = attributes.odp_caps;
    return (odp.general_caps & IBV_ODP_SUPPORT) != 0 && (odp.per_transport_caps.rc_odp_caps & needed) == needed;
}

} // namespace

result<bool> query_odp(ibv_context *context)
{
    RPMA_ASSIGN_OR_RETURN(const ibv_device_attr_ex attributes, query_device(context));
    return has_odp(attributes);
}

result<capabilities> query_capabilities(ibv_context *context)
{
    RPMA_ASSIGN_OR_RETURN(const ibv_device_attr_ex attributes, query_device(context));
    constexpr std::uint64_t flush = device_flush_global | device_flush_persistent;

    capabilities found;
    found.odp = has_odp(attributes);
    found.native_flush = (attributes.device_cap_flags_ex & flush) == flush;
    found.native_atomic_write = (attributes.device_cap_flags_ex & device_atomic_write) != 0;
    for (int port = 1; port <= attributes.orig_attr.phys_port_cnt; ++port) {
        ibv_port_attr limits{};
        if (ibv_query_port(context, static_cast<std::uint8_t>(port), &limits) == 0 && limits.max_msg_sz != 0)
            found.max_message = std::min(found.max_message, limits.max_msg_sz);
    }
    return found;
}

} // namespace rpma::rdma
