// SPDX-License-Identifier: BSD-3-Clause
#include "srq_cfg.hpp"

#include "boundary.hpp"

extern "C" {

int rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr)
{
    return rpma::new_plain(cfg_ptr);
}

int rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr)
{
    return rpma::delete_plain(cfg_ptr);
}

int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size)
{
    return rpma::set_field(cfg, &rpma_srq_cfg::rq_size, rq_size);
}

int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size)
{
    return rpma::get_field(cfg, &rpma_srq_cfg::rq_size, rq_size);
}

int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size)
{
    return rpma::set_field(cfg, &rpma_srq_cfg::rcq_size, rcq_size);
}

int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size)
{
    return rpma::get_field(cfg, &rpma_srq_cfg::rcq_size, rcq_size);
}

} // extern "C"
