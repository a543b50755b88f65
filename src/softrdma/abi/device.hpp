// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/event_loop.hpp"
#include "verbs/objects.hpp"

#include <cerrno>
#include <new>

namespace softrdma
{
class qp_object;
}

namespace softrdma::abi
{

// False for what a parent of this process has made and kept; errno is then ENODEV.
inline bool usable(const process::birth &birth) noexcept
{
    if (birth.is_here())
        return true;
    errno = ENODEV;
    return false;
}
// The same for an object of that device.
inline bool usable(ibv_context *context) noexcept
{
    return usable(context_of(context).birth);
}

// Where libibverbs would open it.
inline constexpr char device_file[] = "/dev/infiniband/uverbs-softrdma0";

device_context *create_device(); // NULL with errno
// The connection manager's context and its protection domain; they live as long as the process.
ibv_context *process_context();
ibv_pd *process_pd();

void fill_device_attributes(ibv_device_attr &attr) noexcept;
int query_port(ibv_context *context, std::uint8_t port, ibv_port_attr *attr, std::size_t size);

// A queue pair of the connection manager. NULL with errno.
ibv_qp *create_managed_qp(ibv_qp_init_attr_ex &attr);

// NULL with errno.
ibv_qp *create_datagram_qp(ibv_pd *pd, ibv_qp_init_attr &attr);
int destroy_datagram_qp(ibv_qp *qp);

// The op tables of a context, from the files that implement them.
void install_data_path(ibv_context_ops &ops) noexcept;
void install_windows(ibv_context_ops &ops) noexcept;
void refuse_data_path(ibv_context_ops &ops) noexcept; // of a device that a parent of this process has opened
void install_extended(verbs_context &verbs) noexcept;
// Operations that libibverbs calls through `priv` of a context, in a layout of its own: each reports EOPNOTSUPP, so
// that a function of a libibverbs newer than the device finds no null pointer.
verbs_ex_private *private_operations() noexcept;
ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr);
ibv_td *alloc_td(ibv_context *context, ibv_td_init_attr *attr);
int dealloc_td(ibv_td *td);
ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr);
// The new post interface with the operations of send_ops_flags, all of which must be on offer for that type.
bool offers_send_ops(ibv_qp_type type, std::uint64_t ops) noexcept;
void install_post_ex(qp_object &qp, std::uint64_t ops);

// Sets errno and gives the failing value.
template<typename T>
T fail_with(T result, int error) noexcept
{
    errno = error;
    return result;
}

// Programs in C cannot be told of an exception: without memory for the call errno is ENOMEM, and `failing` is returned.
// Not for a call that waits: a thread that is cancelled there (pthread_cancel) is unwound by the C library, which
// cannot pass what catches an exception in a library with an unwinder of its own.
template<typename T, typename Call>
T or_no_memory(T failing, Call call) noexcept
{
    try {
        return call();
    } catch (const std::bad_alloc &) {
        return fail_with(failing, ENOMEM);
    }
}

} // namespace softrdma::abi
