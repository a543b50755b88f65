// SPDX-License-Identifier: BSD-3-Clause
#include "abi/device.hpp"

#include <cstdlib>
#include <memory>
#include <netdb.h>
#include <rdma/rdma_cma.h>

namespace
{

struct result_deleter {
    void operator()(rdma_addrinfo *res) const noexcept { rdma_freeaddrinfo(res); }
};
using result_ptr = std::unique_ptr<rdma_addrinfo, result_deleter>;

// Copies an object into memory for free(), which programs and rdma_freeaddrinfo use.
template<typename T>
T *copy_of(const T *from, std::size_t size)
{
    void *copy = size == 0 || from == nullptr ? nullptr : malloc(size);
    return static_cast<T *>(copy == nullptr ? nullptr : memcpy(copy, from, size));
}

int resolve(const char *node, const char *service, const rdma_addrinfo &hints, rdma_addrinfo &res)
{
    addrinfo request{};
    request.ai_socktype = SOCK_STREAM;
    if ((hints.ai_flags & RAI_PASSIVE) != 0)
        request.ai_flags |= AI_PASSIVE;
    if ((hints.ai_flags & RAI_NUMERICHOST) != 0)
        request.ai_flags |= AI_NUMERICHOST;
    if (hints.ai_family == AF_INET || hints.ai_family == AF_INET6)
        request.ai_family = hints.ai_family;
    addrinfo *found = nullptr;
    if (const int error = getaddrinfo(node, service, &request, &found); error != 0)
        return error;
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
    res.ai_family = found->ai_family;
    sockaddr *address = copy_of(found->ai_addr, found->ai_addrlen);
    if (address == nullptr)
        return EAI_MEMORY;
    if ((hints.ai_flags & RAI_PASSIVE) != 0) {
        res.ai_src_addr = address;
        res.ai_src_len = found->ai_addrlen;
    } else {
        res.ai_dst_addr = address;
        res.ai_dst_len = found->ai_addrlen;
    }
    return 0;
}

int port_space(const rdma_addrinfo &hints) noexcept
{
    if (hints.ai_port_space != 0)
        return hints.ai_port_space;
    return hints.ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
}

} // namespace

extern "C" {

int rdma_getaddrinfo(const char *node, const char *service, const rdma_addrinfo *hints, rdma_addrinfo **out)
{
    const rdma_addrinfo none{};
    const rdma_addrinfo &request = hints != nullptr ? *hints : none;
    if (node == nullptr && service == nullptr && hints == nullptr)
        return softrdma::abi::fail_with(-1, EINVAL);
    result_ptr res(static_cast<rdma_addrinfo *>(calloc(1, sizeof(rdma_addrinfo))));
    if (res == nullptr)
        return EAI_MEMORY;
    res->ai_flags = request.ai_flags;
    res->ai_port_space = port_space(request);
    res->ai_qp_type = request.ai_qp_type != 0             ? request.ai_qp_type
                      : res->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD
                                                          : IBV_QPT_RC;
    res->ai_family = request.ai_family;
    if (node != nullptr || service != nullptr) {
        if (const int error = resolve(node, service, request, *res); error != 0)
            return error;
    }
    if (res->ai_src_addr == nullptr && request.ai_src_len != 0) {
        res->ai_src_addr = copy_of(request.ai_src_addr, request.ai_src_len);
        res->ai_src_len = request.ai_src_len;
    }
    if (res->ai_dst_addr == nullptr && request.ai_dst_len != 0) {
        res->ai_dst_addr = copy_of(request.ai_dst_addr, request.ai_dst_len);
        res->ai_dst_len = request.ai_dst_len;
    }
    *out = res.release();
    return 0;
}

void rdma_freeaddrinfo(rdma_addrinfo *res)
{
    while (res != nullptr) {
        rdma_addrinfo *next = res->ai_next;
        free(res->ai_src_addr);
        free(res->ai_dst_addr);
        free(res->ai_src_canonname);
        free(res->ai_dst_canonname);
        free(res->ai_route);
        free(res->ai_connect);
        free(res);
        res = next;
    }
}

} // extern "C"
