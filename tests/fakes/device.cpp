// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstring>

#include "completion.hpp"
#include "queue_pair.hpp"

// The device: context, queries, protection domains, memory regions.
namespace
{

using fake::call;
using fake::minus_one;
using fake::null;
using fake::the;

struct pd : fake::object {
    pd() : object(FAKE_PD) {}
    ibv_pd face{};
};

struct mr : fake::object {
    mr() : object(FAKE_MR) {}
    ibv_mr face{};
};

ibv_device device_face{};
verbs_context context_face{};

int query_device_ex(ibv_context *, const ibv_query_device_ex_input *input, ibv_device_attr_ex *attributes, size_t size)
{
    const call c("ibv_query_device_ex");
    the().seen.device_query_had_input = input != nullptr;
    if (c.error() != 0)
        return c.error();
    const fake_traits &device = the().device;
    ibv_device_attr_ex answer{};
    answer.orig_attr.phys_port_cnt = static_cast<uint8_t>(device.ports);
    answer.device_cap_flags_ex = device.capabilities;
    answer.odp_caps.general_caps = device.odp_general;
    answer.odp_caps.per_transport_caps.rc_odp_caps = device.odp_rc;
    std::memcpy(attributes, &answer, std::min(size, sizeof(answer)));
    return 0;
}

int query_port(ibv_context *, uint8_t port, ibv_port_attr *attributes, size_t size)
{
    const call c("ibv_query_port");
    if (c.error() != 0)
        return c.error();
    if (port < 1 || port > the().device.ports) {
        the().problem("ibv_query_port of a port the device does not have");
        return EINVAL;
    }
    ibv_port_attr answer{};
    answer.state = IBV_PORT_ACTIVE;
    answer.max_msg_sz = the().device.max_msg_sz[port - 1];
    std::memcpy(attributes, &answer, std::min(size, sizeof(answer)));
    return 0;
}

int advise_mr(ibv_pd *domain, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge *ranges, uint32_t count)
{
    call c("ibv_advise_mr");
    if (c.error() != 0)
        return c.error();
    c.find<pd>(domain);
    if (count != 1)
        the().problem("ibv_advise_mr with more than one range");
    the().seen.advice = advice;
    the().seen.advice_flags = flags;
    the().seen.advice_range = ranges[0];
    the().seen.advice_pd = domain;
    return the().device.advise_error;
}

int access_error(int access)
{
    const fake_traits &device = the().device;
    const bool native = (device.capabilities >> FAKE_CAP_FLUSH_GLOBAL & 1) != 0;
    if ((access & (FAKE_ACCESS_FLUSH_GLOBAL | FAKE_ACCESS_FLUSH_PERSISTENT)) != 0 && !native)
        return EINVAL;
    if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
        return EINVAL;
    if ((access & IBV_ACCESS_ON_DEMAND) != 0 && (device.odp_general & IBV_ODP_SUPPORT) == 0)
        return EINVAL;
    if (device.unpinnable && (access & IBV_ACCESS_ON_DEMAND) == 0)
        return EOPNOTSUPP;
    if ((access & FAKE_ACCESS_FLUSH_PERSISTENT) != 0)
        return device.persistent_error;
    return 0;
}

} // namespace

namespace fake
{

ibv_context *context()
{
    return &context_face.context;
}

} // namespace fake

extern "C" {

struct ibv_context *fake_context(void)
{
    verbs_context &face = context_face;
    device_face.transport_type = the().device.transport;
    std::strcpy(device_face.dev_name, the().device.software ? "uverbs-softrdma0" : "uverbs0");
    face.query_device_ex = the().device.without_extended_query ? nullptr : query_device_ex;
    face.query_port = the().device.without_extended_query ? nullptr : query_port;
    face.advise_mr = the().device.without_advise ? nullptr : advise_mr;
    face.sz = sizeof(face);
    face.context.device = &device_face;
    face.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    fake::configure_completion(face.context.ops);
    fake::configure_queue_pair(face.context.ops);
    return &face.context;
}

int ibv_query_device(struct ibv_context *, struct ibv_device_attr *attributes)
{
    const call c("ibv_query_device");
    if (c.error() != 0)
        return c.error();
    *attributes = {};
    attributes->phys_port_cnt = static_cast<uint8_t>(the().device.ports);
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attributes)
{
    // The old structure is a prefix of the new one.
    return query_port(
            context, port, reinterpret_cast<ibv_port_attr *>(attributes), offsetof(ibv_port_attr, port_cap_flags2));
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    const call c("ibv_alloc_pd");
    if (the().device.alloc_pd_is_silent)
        return nullptr;
    if (c.error() != 0)
        return null<ibv_pd>(c.error());
    auto created = std::make_unique<pd>();
    created->face.context = context;
    return the().add_face(std::move(created));
}

struct ibv_device **ibv_get_device_list(int *count)
{
    const call c("ibv_get_device_list");
    if (c.error() != 0)
        return null<ibv_device *>(c.error());
    *count = the().device.absent ? 0 : 1;
    auto **const list = new ibv_device *[2] {};
    if (*count != 0)
        list[0] = fake_context()->device;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    const call c("ibv_free_device_list", call::kind::infallible);
    delete[] list;
}

int ibv_dealloc_pd(struct ibv_pd *domain)
{
    return call("ibv_dealloc_pd").destroy(domain);
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *domain, void *addr, size_t length, int access)
{
    call c("ibv_reg_mr");
    the().seen.access = access;
    the().seen.mr_addr = addr;
    the().seen.mr_length = length;
    if (c.error() != 0)
        return null<ibv_mr>(c.error());
    if (c.find<pd>(domain) == nullptr)
        return null<ibv_mr>(EINVAL);
    if (const int error = access_error(access); error != 0)
        return null<ibv_mr>(error);

    auto created = std::make_unique<mr>();
    ibv_mr &face = created->face;
    face.context = domain->context;
    face.pd = domain;
    face.addr = addr;
    face.length = length;
    face.lkey = static_cast<uint32_t>(0x1000 + the().next_serial);
    face.rkey = static_cast<uint32_t>(0x2000 + the().next_serial);
    the().depend(created.get(), domain, c.name());
    return the().add_face(std::move(created));
}

int ibv_dereg_mr(struct ibv_mr *region)
{
    return call("ibv_dereg_mr").destroy(region);
}

} // extern "C"
