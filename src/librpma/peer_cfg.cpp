// SPDX-License-Identifier: BSD-3-Clause
#include "peer_cfg.hpp"

#include "boundary.hpp"
#include "log.hpp"

namespace
{

constexpr size_t descriptor_size = 1;

} // namespace

extern "C" {

int rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr)
{
    return rpma::new_plain(pcfg_ptr);
}

int rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr)
{
    return rpma::delete_plain(pcfg_ptr);
}

int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg *pcfg, bool supported)
{
    return rpma::set_field(pcfg, &rpma_peer_cfg::direct_write_to_pmem, supported);
}

int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg *pcfg, bool *supported)
{
    return rpma::get_field(pcfg, &rpma_peer_cfg::direct_write_to_pmem, supported);
}

int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc)
{
    if (pcfg == nullptr || desc == nullptr)
        return RPMA_E_INVAL;
    *static_cast<unsigned char *>(desc) = pcfg->direct_write_to_pmem.load() ? 1 : 0;
    return 0;
}

int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *desc_size)
{
    if (pcfg == nullptr || desc_size == nullptr)
        return RPMA_E_INVAL;
    *desc_size = descriptor_size;
    return 0;
}

int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size, struct rpma_peer_cfg **pcfg_ptr)
{
    if (desc == nullptr || pcfg_ptr == nullptr)
        return RPMA_E_INVAL;
    if (desc_size < descriptor_size) {
        RPMA_LOG_ERROR("peer configuration descriptor: invalid size %zu (expected %zu)\n", desc_size, descriptor_size);
        return RPMA_E_INVAL;
    }
    struct rpma_peer_cfg *pcfg = nullptr;
    if (const int error = rpma::new_plain(&pcfg); error != 0)
        return error;
    const bool supported = *static_cast<const unsigned char *>(desc) != 0;
    pcfg->direct_write_to_pmem.store(supported);
    RPMA_LOG_INFO("the remote peer's direct write to PMem: %s\n", supported ? "supported" : "unsupported");
    *pcfg_ptr = pcfg;
    return 0;
}

} // extern "C"
