// SPDX-License-Identifier: BSD-3-Clause
#include "trace/recorder.hpp"
#include "base/config.hpp"
#include "base/gid_table.hpp"
#include "base/lock.hpp"
#include "base/copy.hpp"
#include "base/process.hpp"
#include "transport/packet_path.hpp"
#include "verbs/tap.hpp"
#include "wire/roce.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <fcntl.h>
#include <map>
#include <netinet/in.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace softrdma::trace
{

namespace
{

constexpr std::size_t mtu = 4096;

enum class direction : std::uint32_t { // values of the packet flags of pcapng
    inbound = 1,
    outbound = 2,
};

std::uint32_t packets_of(std::uint64_t bytes) noexcept
{
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (bytes + mtu - 1) / mtu));
}

std::vector<std::byte> joined(std::span<const iovec> segments)
{
    std::vector<std::byte> bytes(total_length(segments));
    gather_segments(bytes.data(), segments);
    return bytes;
}

struct addresses {
    network_address from{};
    network_address to{};
};

constexpr std::size_t ethernet_size = 14;
constexpr std::uint16_t ephemeral_port = 0xc000;

// Writes a locally administered MAC address that ends with the last four bytes of the IP address.
void put_mac(byte_writer &w, const network_address &address) noexcept
{
    w.put(std::uint16_t{0x0200}).put_raw(address.data() + address.size() - 4, 4);
}

void put_udp_checksum(std::span<std::byte> udp, const addresses &ends)
{
    std::uint32_t sum = roce::sum_words(static_cast<std::uint32_t>(udp.size()) + IPPROTO_UDP, ends.from);
    sum = roce::sum_words(sum, ends.to);
    const auto checksum = static_cast<std::uint16_t>(~roce::sum_words(sum, udp));
    byte_writer(udp.data() + 6).put(checksum == 0 ? std::uint16_t{0xffff} : checksum);
}

// Returns an Ethernet frame of RoCE version 2: IP, UDP to port 4791, InfiniBand headers, payload, invariant CRC.
template<typename Header>
std::vector<std::byte> frame_of(const addresses &ends, const Header &header, std::span<const std::byte> payload)
{
    const roce::transport_headers headers = roce::encode(header, payload.size());
    const auto port = static_cast<std::uint16_t>(ephemeral_port | (header.dest_qpn & 0x3fff));
    const roce::udp_flow flow{ends.from, ends.to, port};
    const std::size_t size = headers.size + payload.size() + headers.padding;
    const roce::network_headers network = encode(flow, roce::udp_size + size + sizeof(roce::invariant_crc));
    const bool is_v4 = network.ip_size == roce::ipv4_size;
    std::vector<std::byte> frame(ethernet_size + network.size + size + sizeof(roce::invariant_crc));

    byte_writer w(frame.data());
    put_mac(w, ends.to);
    put_mac(w, ends.from);
    w.put(static_cast<std::uint16_t>(is_v4 ? 0x0800 : 0x86dd));
    w.put_raw(network.bytes.data(), network.size);
    w.put_raw(headers.bytes.data(), headers.size).put_raw(payload.data(), payload.size());

    const std::span from_ip = std::span(frame).subspan(ethernet_size);
    const roce::invariant_crc crc = crc_of(flow, from_ip.subspan(network.size, size));
    byte_writer(from_ip.data() + network.size + size).put_raw(crc.data(), crc.size());
    if (is_v4)
        roce::put_ip_checksum(from_ip.first(network.ip_size));
    else
        put_udp_checksum(from_ip.subspan(network.ip_size), ends);
    return frame;
}

// State for splitting the segments of the device into packets of at most one MTU, each with its own PSN.
struct flow {
    struct message {
        std::uint32_t psn; // PSN of the device
        std::uint32_t first;
        std::uint32_t count;
        std::uint32_t sent = 0; // packets of the request
        std::uint32_t responded = 0;
    };
    std::deque<message> messages;
    std::uint32_t next = 0;
    bool started = false;

    message &begin(std::uint32_t psn, std::uint32_t count)
    {
        if (!started)
            next = psn;
        started = true;
        constexpr std::size_t max_messages = 1u << 16;
        if (messages.size() >= max_messages)
            messages.pop_front();
        messages.push_back({psn, next, count});
        next = (next + count) & psn_mask;
        return messages.back();
    }
    message *find(std::uint32_t psn)
    {
        const auto found =
                std::find_if(messages.rbegin(), messages.rend(), [psn](const message &m) { return m.psn == psn; });
        return found == messages.rend() ? nullptr : &*found;
    }
    void forget_before(std::uint32_t psn)
    {
        while (!messages.empty() && psn_after(psn, messages.front().psn))
            messages.pop_front();
    }
};

class recorder : public tap
{
public:
    explicit recorder(int fd) : fd_(fd) {}

    void sent(packet_path &path, const packet &header, std::span<const iovec> payload) override
    {
        record(path, header, joined(payload), direction::outbound);
    }
    void received(packet_path &path, const packet &header) override
    {
        record(path, header, header.payload, direction::inbound);
    }
    void executed(packet_path &path, const packet &request, std::span<const iovec> payload, const packet &response,
            std::span<const iovec> response_payload) override
    {
        const lock_guard lock(mutex_);
        flow &f = flows_[{&path, direction::outbound}];
        const auto out = joined(payload);
        const auto back = joined(response_payload);
        const std::uint32_t count = packets_of(std::max(out.size(), back.size()));
        const std::uint32_t first = f.begin(f.next, count).first;
        put_parts(path, request, out, first, true, true, direction::outbound);
        const bool closes = response.op == opcode::acknowledge; // an acknowledgment has the PSN of the last packet
        put_parts(
                path, response, back, closes ? (first + count - 1) & psn_mask : first, true, true, direction::inbound);
        f.messages.pop_back();
    }
    void sent(const datagram &d, const datagram_route &route, std::span<const iovec> payload) override
    {
        record(d, route.source, route.destination, joined(payload), direction::outbound);
    }
    void received(const datagram &d, const network_header &header) override
    {
        network_address source;
        network_address destination;
        if (parse(header, source, destination))
            record(d, source, destination, d.payload, direction::inbound);
    }

private:
    void record(const datagram &d, const network_address &from, const network_address &to,
            std::span<const std::byte> payload, direction which)
    {
        const lock_guard lock(mutex_);
        put_block(frame_of({from, to}, d, payload), which);
    }

    void record(packet_path &path, const packet &p, std::span<const std::byte> payload, direction d)
    {
        if (p.op > opcode::atomic_write || (p.op == opcode::acknowledge && p.syndrome == syndrome::unresponsive))
            return; // not part of the RoCE protocol
        const lock_guard lock(mutex_);
        const bool request = is_request(p.op);
        const direction requests = request == (d == direction::outbound) ? direction::outbound : direction::inbound;
        flow &f = flows_[{&path, requests}];
        if (request)
            record_request(path, f, p, payload, d);
        else
            record_response(path, f, p, payload, d);
    }

    void record_request(packet_path &path, flow &f, const packet &p, std::span<const std::byte> payload, direction d)
            REQUIRES(mutex_)
    {
        const bool first = is_first(p.op) || is_round_trip(p.op);
        flow::message *m = f.find(p.psn);
        if (m == nullptr) {
            const bool counts_response = p.op == opcode::read_request;
            const std::uint64_t length = is_write(p.op) || counts_response ? p.dma_length : payload.size();
            m = &f.begin(p.psn, is_round_trip(p.op) && !counts_response ? 1 : packets_of(length));
        } else if (first) {
            m->sent = 0; // sent again
        }
        const std::uint32_t psn = (m->first + m->sent) & psn_mask;
        m->sent += put_parts(path, p, payload, psn, first, is_last(p.op) || is_round_trip(p.op), d);
        if (m->sent > m->count) { // the length of a SEND is known only at its end
            m->count = m->sent;
            if (m == &f.messages.back())
                f.next = (m->first + m->count) & psn_mask;
        }
    }

    void record_response(packet_path &path, flow &f, const packet &p, std::span<const std::byte> payload, direction d)
            REQUIRES(mutex_)
    {
        flow::message *m = f.find(p.psn);
        if (m == nullptr)
            return;
        const bool more = is_read_response(p.op);
        std::uint32_t psn = m->first;
        if (more)
            psn = (m->first + m->responded) & psn_mask;
        else if (p.syndrome == syndrome::ack)
            psn = (m->first + m->count - 1) & psn_mask;
        const bool first = p.op == opcode::read_response_first || p.op == opcode::read_response_only;
        const bool last = p.op == opcode::read_response_last || p.op == opcode::read_response_only;
        m->responded += put_parts(path, p, payload, psn, first, last, d);
        f.forget_before(p.psn);
    }

    std::uint32_t put_parts(packet_path &path, const packet &p, std::span<const std::byte> payload, std::uint32_t psn,
            bool first, bool last, direction d) REQUIRES(mutex_)
    {
        sockaddr_storage local{};
        sockaddr_storage remote{};
        path.ends(local, remote);
        addresses ends{std::bit_cast<network_address>(gid_of(local)), std::bit_cast<network_address>(gid_of(remote))};
        if (d == direction::inbound)
            std::swap(ends.from, ends.to);
        const bool splits = is_send(p.op) || is_write(p.op) || is_read_response(p.op);
        const std::uint32_t count = splits ? packets_of(payload.size()) : 1;
        for (std::uint32_t i = 0; i < count; ++i) {
            packet part = p;
            part.psn = (psn + i) & psn_mask;
            if (splits)
                part.op = part_of(p.op, first && i == 0, last && i + 1 == count);
            part.solicited = p.solicited && is_last(part.op);
            part.no_ack_req = p.no_ack_req || !(is_last(part.op) || is_round_trip(part.op));
            const auto bytes = splits ? payload.subspan(i * mtu, std::min(mtu, payload.size() - i * mtu)) : payload;
            put_block(frame_of(ends, part, bytes), d);
        }
        return count;
    }

    // Writes an enhanced packet block of pcapng with one call, because other processes append to the same file.
    void put_block(const std::vector<std::byte> &frame, direction d) REQUIRES(mutex_)
    {
        if (fd_ < 0)
            return;
        timespec now{};
        clock_gettime(CLOCK_REALTIME, &now);
        const std::uint64_t now_ns =
                static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
        const auto size = static_cast<std::uint32_t>(frame.size());
        const std::uint32_t padding = (4 - size % 4) % 4;
        constexpr std::uint32_t flags_option = 4u << 16 | 2; // length and code, of little-endian halves
        const std::uint32_t total = 28 + size + padding + 12 + 4;
        const std::uint32_t head[] = {
                6, total, 0, static_cast<std::uint32_t>(now_ns >> 32), static_cast<std::uint32_t>(now_ns), size, size};
        const std::uint32_t tail[] = {flags_option, static_cast<std::uint32_t>(d), 0, total};
        block_.resize(total);
        memcpy(block_.data(), head, sizeof(head));
        memcpy(block_.data() + sizeof(head), frame.data(), size);
        memset(block_.data() + sizeof(head) + size, 0, padding);
        memcpy(block_.data() + sizeof(head) + size + padding, tail, sizeof(tail));
        if (write(fd_, block_.data(), block_.size()) == static_cast<ssize_t>(block_.size()))
            return;
        fprintf(stderr, "softrdma: trace: cannot write: %s (the trace ends here)\n", strerror(errno));
        close(std::exchange(fd_, -1));
    }

    ordered_mutex mutex_{lock_level::leaf};
    int fd_ GUARDED_BY(mutex_);
    std::map<std::pair<const packet_path *, direction>, flow> flows_ GUARDED_BY(mutex_);
    std::vector<std::byte> block_ GUARDED_BY(mutex_);
};

} // namespace

bool configure()
{
    static constinit process::single<const bool> writable;
    return writable.get([] {
        const char *path = config::text(config::setting::trace);
        if (path == nullptr)
            return &process::yes;
        const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        if (fd < 0) {
            fprintf(stderr, "softrdma: cannot write the trace '%s': %s (use softrdma trace)\n", path, strerror(errno));
            return &process::no;
        }
        tap::install(new recorder(fd));
        return &process::yes;
    });
}

} // namespace softrdma::trace
