// SPDX-License-Identifier: BSD-3-Clause
#include "network.hpp"

#include <cerrno>
#include <poll.h>

namespace simulation
{

network *net = nullptr;

std::string address_of(unsigned machine)
{
    return "10.0.0." + std::to_string(machine + 1);
}

int machine_of(const std::string &address)
{
    for (unsigned i = 0; i < max_machines; ++i)
        if (address == address_of(i))
            return static_cast<int>(i);
    return -1;
}

network::network(world &in_) : in(in_)
{
    net = this;
}

// The first packet has the full delay of the link. Later ones follow directly.
time_us network::delay(unsigned from, unsigned to, bool next)
{
    const time_us usual = next ? in.between(0, 20) : in.between(10, 200);
    return usual + (!calm_ && in.one_in(100) ? in.between(0, 50 * ms) : 0) + (next ? 0 : slower_[from][to]);
}

void network::cut(unsigned from, unsigned to, bool how)
{
    cut_[from][to] = how;
    const std::uint64_t number = ++cuts_[from][to];
    if (!how)
        return;
    in.at(user_timeout, [this, from, to, number] {
        if (cuts_[from][to] != number)
            return;
        for (const auto &weak : sockets) {
            const auto s = weak.lock();
            if (!s || s->gone || !s->connected)
                continue;
            const auto other = s->other.lock();
            const unsigned at = s->owner->machine, peer = other ? other->owner->machine : at;
            if ((at == from && peer == to) || (at == to && peer == from))
                s->fail(ETIMEDOUT);
        }
    });
}

void network::heal()
{
    calm_ = true;
    for (unsigned a = 0; a < max_machines; ++a)
        for (unsigned b = 0; b < max_machines; ++b) {
            cut(a, b, false);
            slow(a, b, 0);
        }
}

void network::reset_one()
{
    std::erase_if(sockets, [](const auto &weak) { return weak.expired(); });
    if (sockets.empty())
        return;
    reset(sockets[in.below(sockets.size())].lock());
}

void network::reset_at_once(socket &s)
{
    if (!calm_)
        in.at(0, [weak = s.weak_from_this()] { reset(weak.lock()); });
}

void network::reset(const std::shared_ptr<socket> &hit)
{
    if (!hit)
        return;
    for (const auto &s : {hit, hit->other.lock()})
        if (s && s->connected)
            s->fail(ECONNRESET);
}

void direction::send(std::function<void()> arrive)
{
    queue_.push_back({std::move(arrive), over.in.now()});
    if (!scheduled_)
        schedule(over.delay(from_, to_, false));
}

void direction::drop()
{
    queue_.clear();
}

void direction::schedule(time_us delay)
{
    scheduled_ = true;
    over.in.at(delay, [self = shared_from_this()] { self->step(); });
}

void direction::step()
{
    scheduled_ = false;
    if (queue_.empty())
        return;
    if (gate && !gate())
        return schedule(over.in.between(1 * ms, 20 * ms));
    if (!over.passes(from_, to_)) {
        if (over.in.now() - queue_.front().sent < timeout_)
            return schedule(over.in.between(10 * ms, 100 * ms));
        queue_.clear();
        if (given_up)
            given_up();
        return;
    }
    const auto arrive = std::move(queue_.front().arrive);
    queue_.pop_front();
    arrive();
    if (!queue_.empty() && !scheduled_)
        schedule(over.delay(from_, to_, true));
}

short network::socket::ready() const
{
    short events = 0;
    if (!bytes.empty() || ended || error != 0)
        events |= POLLIN;
    if (connected || error != 0)
        events |= POLLOUT;
    if (ended || error != 0)
        events |= POLLRDHUP;
    return events;
}

void network::socket::shut(bool notify)
{
    if (gone)
        return;
    gone = true;
    if (!out)
        return;
    if (!notify) {
        // The machine has lost power: data in flight is dropped, and the peer detects the loss by a timeout.
        out->drop();
        over->in.at(over->user_timeout, [peer = other] {
            if (const auto p = peer.lock(); p && !p->gone)
                p->fail(ETIMEDOUT);
        });
        return;
    }
    out->send([peer = other] {
        if (const auto p = peer.lock(); p && !p->gone) {
            p->ended = true;
            p->touch();
        }
    });
}

} // namespace simulation
