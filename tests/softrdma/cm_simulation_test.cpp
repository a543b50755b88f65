// SPDX-License-Identifier: BSD-3-Clause
// Two sides of a connection that messages of the InfiniBand connection manager establish, or of a resolution of a
// service, over a network that loses, repeats and reorders them, or is slow. The listener of the passive side may begin
// late. usage: softrdma_cm_simulation_test [SEED]: runs 20,000 plans of each kind, or one.
#include "base/gid_table.hpp"
#include "cm/mad_exchange.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

using namespace softrdma;
using event = mad_exchange::event;
using time_point = mad_exchange::time_point;
using std::chrono::milliseconds;

namespace
{

roce::cm_mad parameters(std::uint64_t service_id, std::uint8_t mtu)
{
    roce::cm_mad m;
    m.service_id = service_id;
    m.guid = device_guid;
    m.mtu = mtu;
    m.qpn = 2;
    return m;
}

constexpr milliseconds limit{4000};
constexpr auto max_duration = std::chrono::minutes(10);
constexpr unsigned max_messages = 200; // messages of one connection

unsigned current_seed;
unsigned lossy = 0;       // plans on a network that loses messages
unsigned agreed = 0;      // plans of these in which both sides got the decision of the passive program
unsigned confirmed = 0;   // plans of these whose end was confirmed
unsigned resolutions = 0; // plans of resolutions on such a network
unsigned resolved = 0;    // plans of these in which the active side got the decision

void check(bool condition, const char *text)
{
    if (condition)
        return;
    fprintf(stderr, "seed %u: %s\n", current_seed, text);
    exit(1);
}

struct world;

struct side final : mad_exchange::outlet {
    side(world &of, std::uint32_t id) : in(of), exchange(id, limit, *this) {}
    void send(const roce::cm_mad &m) override;
    void notice(event e);
    bool saw(event e) const { return std::find(events.begin(), events.end(), e) != events.end(); }

    world &in;
    side *peer = nullptr;
    std::vector<event> events;
    mad_exchange exchange;
};

// The network, the time, and what both programs do.
struct world {
    world(unsigned seed, bool is_resolution)
        : random(seed), resolves(is_resolution), is_lossy(seed % 3 != 0), accepts(chance(0.8)),
          latency(chance(0.5) ? milliseconds(3) : delay(200)), active(*this, 1), passive(*this, 2)
    {
        if (chance(0.3))
            listens_from = now + delay(600);
        active.peer = &passive;
        passive.peer = &active;
    }
    bool chance(double share) { return std::bernoulli_distribution(share)(random); }
    milliseconds delay(unsigned max_ms) { return milliseconds(std::uniform_int_distribution(1u, max_ms)(random)); }
    void at(milliseconds after, std::function<void()> call) { calls.emplace(now + after, std::move(call)); }
    void run();

    std::mt19937 random;
    const bool resolves;
    const bool is_lossy;
    const bool accepts;
    const milliseconds latency; // delay of each message if none is lost
    unsigned messages = 0;
    bool is_requested = false;
    bool is_abandoned = false;
    time_point now{std::chrono::hours(1)};
    time_point listens_from{};
    std::multimap<time_point, std::function<void()>> calls;
    side active;
    side passive;
};

// Answers a request for which no program listens.
void refuse(const roce::cm_mad &m, side &by)
{
    const bool resolves = m.attribute == roce::cm_attribute::resolve_request;
    roce::cm_mad refusal =
            make_mad(resolves ? roce::cm_attribute::resolve_reply : roce::cm_attribute::reject, 0, 0, m.local_id);
    refusal.reason = resolves ? roce::resolve_status::service_unknown : reject_reason::invalid_service_id;
    by.send(refusal);
}

void side::send(const roce::cm_mad &m)
{
    const bool is_probe = m.attribute == roce::cm_attribute::load_alternate_path ||
                          m.attribute == roce::cm_attribute::alternate_path_reply;
    in.messages += is_probe ? 0 : 1;
    check(roce::is_of_resolution(m.attribute) == in.resolves, "a message of the other kind");
    roce::cm_mad copy;
    check(decode(encode(m), copy), "a message that its receiver does not understand");
    const unsigned copies = !in.is_lossy ? 1 : in.chance(0.25) ? 0 : in.chance(0.25) ? 2 : 1;
    for (unsigned i = 0; i < copies; ++i) {
        in.at(in.is_lossy ? in.delay(300) : in.latency, [this, copy] {
            if (roce::is_request(copy.attribute) && !in.is_requested && in.now < in.listens_from)
                return refuse(copy, *peer);
            if (roce::is_request(copy.attribute) && !std::exchange(in.is_requested, true)) {
                peer->exchange.accept_request(copy);
                in.at(in.delay(in.chance(0.1) && !in.resolves ? 30000 : 100), [&to = *peer, &w = in] {
                    if (w.accepts)
                        to.exchange.reply(parameters(0, 0), w.now);
                    else
                        to.exchange.reject(28, {.bytes = {}, .size = 148});
                });
            } else if (in.is_requested || copy.attribute == roce::cm_attribute::reject) {
                peer->notice(peer->exchange.arrived(copy, in.now));
            }
        });
    }
}

void side::notice(event e)
{
    if (e == event::none)
        return;
    events.push_back(e);
    if (e == event::replied)
        in.at(in.delay(in.chance(0.1) ? 12000 : 100), [this] {
            exchange.ready(in.now);
            if (in.chance(0.5)) // otherwise the plan ends the connection later
                in.at(in.delay(200), [this] { exchange.disconnect(in.now); });
        });
    if (e == event::ready && in.chance(0.3))
        in.at(in.delay(200), [this] { exchange.disconnect(in.now); });
    if (e == event::disconnect_request)
        in.at(in.delay(100), [this] { exchange.confirm_disconnect(); });
}

void world::run()
{
    const time_point begin = now;
    if (resolves)
        active.exchange.resolve(parameters(1, 0), now);
    else
        active.exchange.request(parameters(1, 3), now);
    if (chance(0.1))
        at(delay(1000), [this] {
            is_abandoned = true;
            active.exchange.abandon(now);
        });
    at(std::chrono::minutes(5), [this] {
        active.exchange.abandon(now);
        passive.exchange.abandon(now);
    });
    while (now - begin < max_duration) {
        side *expiring = nullptr;
        for (side *s : {&active, &passive}) {
            const auto deadline = s->exchange.deadline();
            if (deadline && (expiring == nullptr || *deadline < *expiring->exchange.deadline()))
                expiring = s;
        }
        const bool expires =
                expiring != nullptr && (calls.empty() || *expiring->exchange.deadline() < calls.begin()->first);
        if (!expires && calls.empty())
            return;
        if (expires) {
            now = std::max(now, *expiring->exchange.deadline());
            expiring->notice(expiring->exchange.expired(now));
            continue;
        }
        auto next = calls.extract(calls.begin());
        now = next.key();
        next.mapped()();
    }
    check(false, "messages never end");
}

// Runs a plan and checks what holds for both kinds. Returns whether the active side got the decision.
bool run_plan(world &w)
{
    w.run();
    check(w.messages <= max_messages, "too many messages");
    check(w.active.exchange.is_closed(), "the active side is not closed");
    check(!w.is_requested || w.passive.exchange.is_closed(), "the passive side is not closed");
    for (const side *s : {&w.active, &w.passive}) {
        for (const event e : {event::replied, event::ready, event::rejected, event::disconnect_request,
                     event::disconnected, event::lost, event::unknown_service})
            check(std::count(s->events.begin(), s->events.end(), e) <= 1, "an event that is reported twice");
    }
    check(!w.active.saw(event::replied) || w.accepts, "a reply that no program has sent");
    check(!w.passive.saw(event::ready) || w.active.saw(event::replied), "a confirmation without a reply");
    check(!w.active.saw(event::unknown_service) || !w.passive.saw(event::unreachable),
            "a reply to a rejected request that is not answered");
    check(w.resolves || w.is_lossy || !w.active.saw(event::unknown_service) || !w.is_requested,
            "a request that is rejected by one side and received by the other");
    return w.active.saw(w.accepts ? event::replied : event::rejected);
}

void check_resolution(unsigned seed)
{
    current_seed = seed;
    world w(seed, true);
    const bool has_decision = run_plan(w);
    check(w.passive.events.empty(), "an event of the passive side");
    if (w.is_abandoned)
        return;
    check(w.active.events.size() == 1, "more or less than one result");
    if (w.active.saw(event::unknown_service))
        return;
    check(w.is_lossy || has_decision, "a decision that the active side has not got");
    resolutions += w.is_lossy ? 1 : 0;
    resolved += w.is_lossy && has_decision ? 1 : 0;
}

void check_plan(unsigned seed)
{
    current_seed = seed;
    world w(seed, false);
    run_plan(w);
    if (w.is_abandoned || w.active.saw(event::unknown_service))
        return;
    if (w.is_lossy) {
        const bool is_agreed = w.accepts ? w.active.saw(event::replied) && !w.passive.saw(event::unreachable)
                                         : w.active.saw(event::rejected);
        const bool is_confirmed =
                !w.accepts || (w.active.saw(event::disconnected) || w.passive.saw(event::disconnected));
        ++lossy;
        agreed += is_agreed ? 1 : 0;
        confirmed += is_confirmed ? 1 : 0;
        return;
    }
    check(w.active.saw(event::replied) == w.accepts && w.active.saw(event::rejected) != w.accepts,
            "a decision that the active side has not got");
    check(w.passive.saw(event::ready) == w.accepts, "no confirmation");
    const auto ends = [](const side &s) { return s.saw(event::disconnected) || s.saw(event::disconnect_request); };
    check(ends(w.active) == w.accepts && ends(w.passive) == w.accepts, "an end that only one side has noticed");
}

} // namespace

int main(int argc, char **argv)
{
    constexpr unsigned plans = 20000;
    const unsigned first = argc > 1 ? static_cast<unsigned>(strtoul(argv[1], nullptr, 10)) : 0;
    for (unsigned seed = first; seed < (argc > 1 ? first + 1 : plans); ++seed) {
        check_plan(seed);
        check_resolution(seed);
    }
    printf("%u plans with losses, %u agreed, %u confirmed; %u resolutions, %u with a result\n", lossy, agreed,
            confirmed, resolutions, resolved);
    current_seed = plans;
    check(agreed * 100 >= lossy * 95 && confirmed * 100 >= lossy * 95, "too many connections fail");
    check(resolved * 100 >= resolutions * 95, "too many resolutions fail");
    return 0;
}
