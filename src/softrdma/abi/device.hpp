// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/or_no_memory.hpp"
#include "progress/event_loop.hpp"
#include "verbs/objects.hpp"

#include <cerrno>

namespace softrdma
{
class qp_object;
}

namespace softrdma::abi
{

// Returns false with errno ENODEV for an object of a parent process.
inline bool usable(const process::birth &birth) noexcept
{
    if (birth.is_here())
        return true;
    errno = ENODEV;
    return false;
}
inline bool usable(ibv_context *context) noexcept
{
    return usable(context_of(context).birth);
}

// Link of the port, which is always up: its width, the speed of a lane (25 Gb/s), and both as in sysfs.
inline constexpr std::uint8_t width_4x = 2;
inline constexpr std::uint8_t speed_edr = 32;
inline constexpr char link_rate[] = "100 Gb/sec (4X EDR)";

device_context *create_device(); // returns NULL and sets errno on error
ibv_context *process_context();
ibv_pd *process_pd();

void fill_device_attributes(ibv_device_attr &attr) noexcept;
int query_port(ibv_context *context, std::uint8_t port, ibv_port_attr *attr, std::size_t size);

// Creates a queue pair of the connection manager. Returns NULL and sets errno on error.
ibv_qp *create_managed_qp(ibv_qp_init_attr_ex &attr);

ibv_qp *create_datagram_qp(ibv_pd *pd, ibv_qp_init_attr &attr);
int destroy_datagram_qp(ibv_qp *qp);

void install_data_path(ibv_context_ops &ops) noexcept;
void install_windows(ibv_context_ops &ops) noexcept;
void reject_data_path(ibv_context_ops &ops) noexcept; // devices of a parent process
void install_extended(verbs_context &verbs) noexcept;
// Operations that libibverbs calls through `priv`, in a private layout. Each returns EOPNOTSUPP.
verbs_ex_private *private_operations() noexcept;
ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr);
ibv_td *alloc_td(ibv_context *context, ibv_td_init_attr *attr);
int dealloc_td(ibv_td *td);
ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr);
// Returns whether that type of queue pair can have the ibv_wr_* interface with these operations.
bool offers_send_ops(ibv_qp_type type, std::uint64_t ops) noexcept;
void install_post_ex(qp_object &qp, std::uint64_t ops);

using softrdma::fail_with;

} // namespace softrdma::abi
