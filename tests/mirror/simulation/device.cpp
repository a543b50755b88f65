// SPDX-License-Identifier: BSD-3-Clause
#include "device.hpp"

#include <algorithm>

namespace simulation
{

device *adapter = nullptr;

device::device(network &over_) : over(over_)
{
    adapter = this;
}

device::~device()
{
    adapter = nullptr;
}

std::byte *device::reach(const process &at, std::uint32_t key, std::uint64_t offset, std::uint64_t length)
{
    const auto found = regions.find(key);
    if (found == regions.end() || found->second.owner != &at || offset > found->second.size ||
            length > found->second.size - offset)
        return nullptr;
    return found->second.address + offset;
}

void device::break_one()
{
    std::erase_if(pairs, [](const auto &weak) { return weak.expired(); });
    if (pairs.empty())
        return;
    const auto hit = pairs[over.in.below(pairs.size())].lock();
    if (hit->now != queue_pair::state::established)
        return;
    hit->fail(IBV_WC_RETRY_EXC_ERR);
    if (const auto other = hit->other.lock(); other && over.in.one_in(2))
        other->fail(IBV_WC_RETRY_EXC_ERR);
}

bool device::serves_below(unsigned machine, std::uint64_t epoch) const
{
    return std::ranges::any_of(pairs, [&](const auto &weak) {
        const auto writer = weak.lock();
        const auto target = writer && writer->epoch != 0 && writer->epoch < epoch ? writer->other.lock() : nullptr;
        return target && !target->gone && target->now == queue_pair::state::established &&
               target->owner->machine == machine;
    });
}

void completion_queue::push(const ibv_wc &wc)
{
    completions.push_back(wc);
    if (armed)
        ++events;
    armed = false;
    adapter->over.in.touch(*owner);
}

void queue_pair::open(process &in, unsigned peer)
{
    owner = cq->owner = cm->owner = &in;
    world &all = adapter->over.in;
    cq_fd = all.add(in, cq);
    cm_fd = all.add(in, cm);
    out = std::make_shared<direction>(adapter->over, in.machine, peer, all.between(300 * ms, 3 * second));
    out->given_up = [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (!self || self->gone)
            return;
        if (self->now == state::connecting)
            self->deliver_event(RPMA_CONN_UNREACHABLE);
        self->fail(IBV_WC_RETRY_EXC_ERR);
    };
    adapter->pairs.push_back(weak_from_this());
    in.at_end.push_back([weak = weak_from_this()](bool power) {
        if (const auto self = weak.lock())
            self->vanish(power);
    });
}

void queue_pair::deliver_event(rpma_conn_event event)
{
    cm->events.push_back(event);
    adapter->over.in.touch(*owner);
}

void queue_pair::fail(ibv_wc_status status)
{
    if (now == state::failed || gone)
        return;
    now = state::failed;
    ibv_wc wc{};
    wc.status = status;
    for (const auto &o : posted) {
        wc.wr_id = o->context;
        cq->push(wc);
        wc.status = IBV_WC_WR_FLUSH_ERR;
    }
    posted.clear();
    wc.status = IBV_WC_WR_FLUSH_ERR;
    for (const receive &r : receives) {
        wc.wr_id = r.context;
        cq->push(wc);
    }
    receives.clear();
}

void queue_pair::confirm(const std::shared_ptr<operation> &o)
{
    if (now == state::failed || gone)
        return;
    o->done = true;
    while (!posted.empty() && posted.front()->done) {
        ibv_wc wc{};
        wc.wr_id = posted.front()->context;
        if (posted.front()->reported)
            cq->push(wc);
        posted.pop_front();
    }
}

void queue_pair::disconnect()
{
    if (gone || now == state::connecting)
        return;
    fail(IBV_WC_WR_FLUSH_ERR);
    out->send([weak = other] {
        const auto peer = weak.lock();
        if (!peer || peer->gone)
            return;
        peer->fail(IBV_WC_WR_FLUSH_ERR);
        peer->deliver_event(RPMA_CONN_CLOSED);
    });
}

// The queue pair ends with its process, or with its machine.
void queue_pair::vanish(bool power)
{
    if (gone)
        return;
    if (power)
        out->drop();
    else
        disconnect();
    gone = true;
}

int queue_pair::post(
        std::uint64_t context, int flags, std::function<bool(queue_pair &at)> f, std::function<void()> back)
{
    const auto created = std::make_shared<operation>(
            operation{context, (flags & ~RPMA_F_COMPLETION_ON_ERROR & RPMA_F_COMPLETION_ALWAYS) != 0});
    posted.push_back(created);
    if (now == state::failed) {
        now = state::established;
        fail(IBV_WC_WR_FLUSH_ERR);
        return 0;
    }
    out->gate = [weak = other] {
        const auto peer = weak.lock();
        // A software device stops with its process.
        return !peer || peer->gone || !peer->owner->stopped || !adapter->software;
    };
    out->send([self = shared_from_this(), created, f = std::move(f), back = std::move(back)] {
        const auto at = self->other.lock();
        if (!at || at->gone || at->now == state::failed) {
            self->fail(IBV_WC_RETRY_EXC_ERR);
            return;
        }
        if (!f(*at)) {
            at->fail(IBV_WC_LOC_ACCESS_ERR);
            at->out->send([self] { self->fail(IBV_WC_REM_ACCESS_ERR); });
            return;
        }
        at->out->send([self, created, back] {
            if (self->gone)
                return;
            if (back)
                back();
            self->confirm(created);
        });
    });
    adapter->over.in.perhaps_switch();
    return 0;
}

} // namespace simulation
