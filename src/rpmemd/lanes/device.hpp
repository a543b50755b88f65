// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <librpma.h>
#include <memory>
#include <string>

#include "config/failure.hpp"

namespace rpmemd
{

// Throws failure, with `message` as the start of the message, if the result of a librpma function is an error.
void check_rpma(int result, const std::string &message);

template<class T, int (*Delete)(T **)>
struct rpma_deleter {
    void operator()(T *object) const { (void)Delete(&object); }
};
using peer_ptr = std::unique_ptr<rpma_peer, rpma_deleter<rpma_peer, rpma_peer_delete>>;
using region_ptr = std::unique_ptr<rpma_mr_local, rpma_deleter<rpma_mr_local, rpma_mr_dereg>>;
using endpoint_ptr = std::unique_ptr<rpma_ep, rpma_deleter<rpma_ep, rpma_ep_shutdown>>;
using connection_cfg_ptr = std::unique_ptr<rpma_conn_cfg, rpma_deleter<rpma_conn_cfg, rpma_conn_cfg_delete>>;
using request_ptr = std::unique_ptr<rpma_conn_req, rpma_deleter<rpma_conn_req, rpma_conn_req_delete>>;
using connection_ptr = std::unique_ptr<rpma_conn, rpma_deleter<rpma_conn, rpma_conn_delete>>;
using peer_cfg_ptr = std::unique_ptr<rpma_peer_cfg, rpma_deleter<rpma_peer_cfg, rpma_peer_cfg_delete>>;

struct device {
    peer_ptr peer;
    bool is_software = false;
};

// Opens the device with this IP address. `kinds` has the bits of replica::device_kind that are allowed.
device open_device(const std::string &address, std::uint32_t kinds);

region_ptr register_memory(const device &on, void *from, std::size_t size, int usage, const std::string &name);

unsigned free_port(const std::string &address);

struct endpoint {
    endpoint_ptr listener;
    unsigned port = 0;
};

endpoint listen_anywhere(const device &on, const std::string &address);

} // namespace rpmemd
