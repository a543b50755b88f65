// SPDX-License-Identifier: BSD-3-Clause
#include "cm/roce_registry.hpp"
#include "base/process.hpp"
#include "verbs/tap.hpp"

#include <algorithm>
#include <sys/random.h>
#include <unistd.h>

namespace softrdma::cm
{

namespace over_roce
{

namespace
{

constinit process::single<registry> the_registry;

void forget(const roce_link &link) REQUIRES(lock())
{
    const auto at = state().passive.find({link.route.destination, link.exchange.remote_id()});
    if (at != state().passive.end() && at->second.lock().get() == &link)
        state().passive.erase(at);
    state().links.erase(link.exchange.local_id());
}

} // namespace

registry &state()
{
    return the_registry.get();
}

registry *state_if_created() noexcept
{
    return the_registry.if_created();
}

local_address name_of_lane(std::uint32_t lane) noexcept
{
    return local_address("softrdma-roce/%u/cm/%u", geteuid(), lane);
}

local_address name_of_service(std::uint64_t number, const network_address *address, bool v4) noexcept
{
    std::array<std::uint64_t, 2> words{};
    if (address != nullptr)
        words = std::bit_cast<std::array<std::uint64_t, 2>>(*address);
    const unsigned family = address != nullptr ? 0 : v4 ? 4 : 6;
    return local_address("softrdma-roce/%u/service/%llx/%u/%llx:%llx", geteuid(),
            static_cast<unsigned long long>(number), family, static_cast<unsigned long long>(be64toh(words[0])),
            static_cast<unsigned long long>(be64toh(words[1])));
}

void send_message(const datagram_route &route, const cm_mad &m)
{
    const auto port = state().port;
    if (port == nullptr)
        return;
    const roce::mad_bytes bytes = encode(m);
    const datagram d = roce::management_datagram(static_cast<std::uint32_t>(m.transaction) & psn_mask);
    if (tap *t = tap::current(); t != nullptr) [[unlikely]] {
        const iovec payload{const_cast<std::byte *>(bytes.data()), bytes.size()};
        t->sent(d, route, {&payload, 1});
    }
    if (m.attribute == cm_attribute::load_alternate_path)
        port->probe(route, d, bytes);
    else
        port->send(route, d, bytes);
}

std::size_t gid_index_of(const network_address &address) noexcept
{
    return static_cast<std::size_t>(std::ranges::find_if(gid_table(), [&](const gid_entry &entry) {
        return std::bit_cast<network_address>(entry.gid) == address;
    }) - gid_table().begin());
}

unsigned interface_of(const network_address &address) noexcept
{
    const std::size_t index = gid_index_of(address);
    return index < gid_table().size() ? gid_table()[index].interface : 0;
}

datagram_route route_to(const roce::udp_flow &flow) noexcept
{
    return {.source = flow.destination, .destination = flow.source, .interface = interface_of(flow.destination)};
}

std::shared_ptr<roce_link> new_link(const cm_id &id, const datagram_route &route)
{
    std::uint32_t number = 0;
    do {
        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            return nullptr;
        number = state().port->lane() << lane_shift | number >> (32 - lane_shift);
    } while (number == 0 || state().links.contains(number));
    auto link = std::make_shared<roce_link>(number, route);
    link->id = id.serial;
    state().links.emplace(number, link);
    return link;
}

void update_timer(roce_link &link)
{
    if (link.exchange.is_closed() && !link.is_ending) {
        link.service.reset();
        event_loop::get()->after(settings().response_timeout, [weak = link.weak_from_this()] {
            const lock_guard guard(lock());
            if (const auto ended = weak.lock(); ended != nullptr)
                forget(*ended);
        });
        link.is_ending = true;
    }
    link.timer.start(link.exchange.deadline(), [weak = link.weak_from_this()] {
        const lock_guard guard(lock());
        const auto waiting = weak.lock();
        if (waiting == nullptr)
            return;
        waiting->timer.expired();
        handle(*waiting, waiting->exchange.expired(clock::now()), {});
    });
}

void update_timer_or_forget(roce_link &link) noexcept
{
    try {
        update_timer(link);
    } catch (const std::bad_alloc &) {
        forget(link);
    }
}

} // namespace over_roce

void roce_link::send(const roce::cm_mad &m)
{
    over_roce::send_message(route, m);
}

} // namespace softrdma::cm
