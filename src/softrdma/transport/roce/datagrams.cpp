// SPDX-License-Identifier: BSD-3-Clause
#include "transport/roce/datagrams.hpp"
#include "base/guard.hpp"
#include "transport/roce/port.hpp"

#include <algorithm>
#include <cerrno>

namespace softrdma::roce
{

namespace
{

class numbered_path final : public datagram_path
{
public:
    numbered_path(std::shared_ptr<port> through, std::uint32_t number) : port_(std::move(through)), number_(number) {}
    ~numbered_path() override { port_->release_number(number_); }

    std::uint32_t number() const noexcept override { return number_; }
    void listen(std::shared_ptr<datagram_receiver> receiver) override { port_->listen(number_, std::move(receiver)); }
    bool send(const datagram &d, const datagram_route &route, std::span<const iovec> payload) override;

private:
    const std::shared_ptr<port> port_;
    const std::uint32_t number_;
};

bool numbered_path::send(const datagram &d, const datagram_route &route, std::span<const iovec> payload)
{
    std::array<std::byte, max_datagram_payload> bytes;
    std::byte *end = bytes.data();
    for (const iovec &part : payload) {
        const auto *from = static_cast<const std::byte *>(part.iov_base);
        if (!guarded([=] { std::copy_n(from, part.iov_len, end); }))
            return false;
        end += part.iov_len;
    }
    port_->send(route, d, {bytes.data(), end});
    return true;
}

} // namespace

std::unique_ptr<datagram_path> open_datagram_path()
{
    auto through = port::open();
    const std::uint32_t number = through == nullptr ? 0 : through->reserve_number();
    if (number != 0)
        return std::make_unique<numbered_path>(std::move(through), number);
    if (through != nullptr)
        errno = ENOMEM;
    return nullptr;
}

} // namespace softrdma::roce
