// SPDX-License-Identifier: BSD-3-Clause
#include "cm/roce_connect.hpp"
#include "base/config.hpp"
#include "base/gid_table.hpp"
#include "base/log.hpp"
#include "transport/roce/connection.hpp"
#include "transport/roce/datagrams.hpp"
#include "transport/roce/port.hpp"
#include "transport/shm/fd_server.hpp"

#include <bit>
#include <cerrno>

namespace softrdma::roce_connect
{

namespace
{

roce::attributes attributes_of(const ibv_qp_attr &attr) noexcept
{
    // Other processes may delay the responses of a software device for longer than those of an RNIC.
    constexpr std::uint8_t min_timeout = 12; // 17 ms
    const std::chrono::nanoseconds timeout(attr.timeout == 0 ? 0 : 4096ll << std::max(attr.timeout, min_timeout));
    return {.dest_qpn = attr.dest_qp_num,
            .mtu = bytes_of(attr.path_mtu),
            .send_psn = attr.sq_psn,
            .receive_psn = attr.rq_psn,
            .timeout = timeout,
            .retry_cnt = attr.retry_cnt,
            .max_rd_atomic = std::max<std::uint32_t>(attr.max_rd_atomic, 1),
            .max_dest_rd_atomic = attr.max_dest_rd_atomic};
}

void drop(const std::shared_ptr<roce::connection> &c)
{
    if (c != nullptr)
        c->bind(nullptr);
}

// Returns EINVAL if no path can have these attributes, or 0. The mask contains IBV_QP_AV.
int check(const ibv_qp_attr &attr, int mask)
{
    const ibv_ah_attr &address = attr.ah_attr;
    if (address.is_global == 0) {
        log::write(log::level::error, "address handle: no GRH: RoCE has GIDs only (set is_global and a GID)");
        return EINVAL;
    }
    if (address.grh.sgid_index >= gid_table().size())
        return EINVAL;
    const std::uint32_t max = roce::max_mtu(gid_table()[address.grh.sgid_index].interface);
    if ((mask & IBV_QP_PATH_MTU) == 0 || bytes_of(attr.path_mtu) <= max)
        return 0;
    log::write(log::level::error, "path MTU %u: larger than the MTU of the interface permits (use at most %u)",
            bytes_of(attr.path_mtu), max);
    return EINVAL;
}

void connect(queue_pair &qp)
{
    const std::uint32_t number = qp.roce_number;
    const auto port = roce::port::get();
    if (port == nullptr || !port->has(number))
        return;
    const ibv_qp_attr attr = qp.attributes();
    const ibv_global_route &route = attr.ah_attr.grh;
    const gid_entry &source = gid_table()[route.sgid_index];
    const datagram_route addresses{.source = std::bit_cast<network_address>(source.gid),
            .destination = std::bit_cast<network_address>(route.dgid),
            .interface = source.interface,
            .traffic_class = route.traffic_class};
    const auto c = roce::connection::create(port, number, addresses, attributes_of(attr));
    qp.attach(c);
    c->bind(qp.receiver());
    drop(port->set(number, c));
    if (log::is_on(log::level::info))
        log::write(log::level::info, "queue pair %u: connected to queue pair %u over RoCE, path MTU %u",
                qp.verbs()->qp_num, attr.dest_qp_num, bytes_of(attr.path_mtu));
}

std::shared_ptr<roce::connection> find_connection(std::uint32_t number)
{
    const auto port = roce::port::get();
    return port == nullptr ? nullptr : port->find(number);
}

void start_sending(std::uint32_t number, const ibv_qp_attr &attr)
{
    if (const auto c = find_connection(number); c != nullptr)
        c->start_sending(attributes_of(attr));
}

void disconnect(queue_pair &qp)
{
    const auto port = roce::port::get();
    if (port == nullptr)
        return;
    drop(port->set(qp.roce_number, nullptr));
    qp.attach(nullptr);
}

} // namespace

bool is_selected()
{
    return config::is(config::setting::transport, config::transport_word::roce);
}

bool follows_rejection()
{
    return config::is(config::setting::transport, config::transport_word::automatic) &&
           !config::is(config::setting::roce, config::roce_word::off);
}

bool is_accepted()
{
    return config::is(config::setting::transport, config::transport_word::automatic) &&
           config::is(config::setting::roce, config::roce_word::listen);
}

ibv_mtu max_path_mtu(std::size_t gid_index)
{
    const auto &table = gid_table();
    const std::uint32_t max = gid_index >= table.size() ? 0 : roce::max_mtu(table[gid_index].interface);
    ibv_mtu mtu = IBV_MTU_4096;
    while (mtu > IBV_MTU_256 && bytes_of(mtu) > max)
        mtu = static_cast<ibv_mtu>(mtu - 1);
    return mtu;
}

std::unique_ptr<datagram_path> open_datagram_path()
{
    return start_event_loop() == nullptr ? nullptr : roce::open_datagram_path();
}

std::uint32_t reserve_number()
{
    if (start_event_loop() == nullptr)
        return 0;
    const auto port = roce::port::open();
    const std::uint32_t number = port == nullptr ? 0 : port->reserve_number();
    if (port != nullptr && number == 0)
        errno = ENOMEM;
    return number;
}

void release_number(std::uint32_t number)
{
    if (const auto port = roce::port::get(); port != nullptr)
        drop(port->release_number(number));
}

void group_packets(std::uint32_t number)
{
    if (const auto c = find_connection(number); c != nullptr)
        c->group_packets();
}

int join(queue_pair &qp)
{
    if (qp.roce_number != 0)
        return 0;
    const std::uint32_t number = reserve_number();
    if (number == 0)
        return errno;
    qp.roce_number = number;
    qp.attach(nullptr);
    const ibv_qp_attr attr = qp.attributes();
    if (attr.qp_state == IBV_QPS_RTR || attr.qp_state == IBV_QPS_RTS)
        connect(qp);
    if (attr.qp_state == IBV_QPS_RTS)
        start_sending(number, attr);
    return 0;
}

void leave(queue_pair &qp)
{
    if (is_selected())
        return;
    if (const std::uint32_t number = qp.roce_number.exchange(0); number != 0) {
        release_number(number);
        qp.attach(nullptr);
    }
}

int modify(queue_pair &qp, const ibv_qp_attr &attr, int mask)
{
    if (const int error = (mask & IBV_QP_AV) != 0 ? check(attr, mask) : 0; error != 0)
        return error;
    const ibv_qp_state from = qp.shown_state();
    if (from == IBV_QPS_RTR && (mask & IBV_QP_SQ_PSN) != 0)
        start_sending(qp.roce_number, attr);
    if (const int error = qp.modify(attr, mask); error != 0)
        return error;
    const ibv_qp_state to = qp.shown_state();
    if (to == IBV_QPS_RTR && from == IBV_QPS_INIT)
        connect(qp);
    else if (to == IBV_QPS_RESET) {
        disconnect(qp);
        leave(qp);
    }
    return 0;
}

} // namespace softrdma::roce_connect
