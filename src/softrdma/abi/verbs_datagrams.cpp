// SPDX-License-Identifier: BSD-3-Clause
#include "abi/device.hpp"
#include "cm/roce_connect.hpp"
#include "transport/udp/udp_port.hpp"
#include "verbs/address_handle.hpp"
#include "verbs/datagram_qp.hpp"

using namespace softrdma;
using abi::fail_with;

namespace softrdma::abi
{

ibv_qp *create_datagram_qp(ibv_pd *pd, ibv_qp_init_attr &attr)
{
    if (const int error = check_limits(attr); error != 0)
        return fail_with(nullptr, error);
    auto path = roce_connect::is_selected() ? roce_connect::open_datagram_path() : open_datagram_path();
    const auto qp = path == nullptr ? nullptr : datagram_qp::create(pd, attr, std::move(path));
    return qp == nullptr ? nullptr : qp->verbs();
}

int destroy_datagram_qp(ibv_qp *qp)
{
    const auto owner = datagram_qp_of(qp).shared_from_this();
    owner->destroy();
    owner->drain_events();
    return 0;
}

} // namespace softrdma::abi

extern "C" {

ibv_ah *ibv_create_ah(ibv_pd *pd, ibv_ah_attr *attr)
{
    if (!abi::usable(pd->context))
        return nullptr;
    return or_no_memory<ibv_ah *>(nullptr, [&]() -> ibv_ah * {
        if (roce_connect::is_selected() && attr->is_global == 0)
            return fail_with(nullptr, EINVAL); // RoCE has no LIDs
        address_handle *ah = address_handle::create(pd, *attr);
        if (ah != nullptr && roce_connect::is_selected())
            ah->max_payload = roce_connect::bytes_of(roce_connect::max_path_mtu(attr->grh.sgid_index));
        return ah;
    });
}

int ibv_init_ah_from_wc(ibv_context *, std::uint8_t port, ibv_wc *wc, ibv_grh *grh, ibv_ah_attr *attr)
{
    const int error = reply_attributes(*wc, *grh, port, *attr);
    return error == 0 ? 0 : fail_with(-1, error);
}

ibv_ah *ibv_create_ah_from_wc(ibv_pd *pd, ibv_wc *wc, ibv_grh *grh, std::uint8_t port)
{
    ibv_ah_attr attr;
    return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) == 0 ? ibv_create_ah(pd, &attr) : nullptr;
}

int ibv_destroy_ah(ibv_ah *ah)
{
    if (!abi::usable(ah->context))
        return ENODEV;
    delete &ah_of(ah);
    return 0;
}

} // extern "C"
