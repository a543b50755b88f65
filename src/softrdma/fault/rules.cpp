// SPDX-License-Identifier: BSD-3-Clause
#include "fault/rules.hpp"
#include "fault/parse.hpp"
#include "base/lock.hpp"
#include "base/process.hpp"
#include "base/config.hpp"

#include <cinttypes>
#include <cstdio>
#include <random>
#include <sys/random.h>
#include <unistd.h>

namespace softrdma::fault
{

std::atomic<bool> any_rules{false};

namespace
{

struct state {
    ordered_mutex lock{lock_level::leaf};
    std::vector<rule> rules GUARDED_BY(lock);
    std::mt19937_64 random GUARDED_BY(lock);
    bool is_seeded GUARDED_BY(lock) = false;
};

// Returns a number in [0, 1). The function of the standard library would add a dependency on libm.
double draw(std::mt19937_64 &random)
{
    return static_cast<double>(random() >> 11) * 0x1p-53;
}

bool fires(rule &r, std::mt19937_64 &random)
{
    ++r.matches;
    if ((r.nth != 0 && r.matches != r.nth) || (r.every != 0 && r.matches % r.every != 0) ||
            (r.count != 0 && r.fired >= r.count))
        return false;
    if (r.probability < 1 && draw(random) >= r.probability)
        return false;
    ++r.fired;
    return true;
}

template<typename Matches>
std::optional<verdict> decide(Matches matches)
{
    state &s = process::instance<state>();
    const lock_guard guard(s.lock);
    for (rule &r : s.rules) {
        if (matches(r) && fires(r, s.random))
            return r.result;
    }
    return std::nullopt;
}

bool concerns(const rule &r, std::uint32_t qpn) noexcept
{
    return r.qpn == 0 || r.qpn == qpn;
}

bool is_of_requests(action a) noexcept
{
    return a != action::reject && a != action::unreachable && a != action::overflow;
}

} // namespace

std::optional<verdict> on_request(ibv_wr_opcode opcode, std::uint32_t qpn)
{
    return decide([&](const rule &r) {
        return is_of_requests(r.result.kind) && concerns(r, qpn) && (r.operations >> opcode & 1) != 0;
    });
}

std::optional<action> on_handshake()
{
    const auto found = decide(
            [](const rule &r) { return r.result.kind == action::reject || r.result.kind == action::unreachable; });
    return found ? std::optional(found->kind) : std::nullopt;
}

bool on_completion(std::uint32_t qpn)
{
    return decide([&](const rule &r) { return r.result.kind == action::overflow && concerns(r, qpn); }).has_value();
}

bool add(std::string_view text, std::string &reason)
{
    state &s = process::instance<state>();
    if (text == "off") {
        const lock_guard guard(s.lock);
        s.rules.clear();
        any_rules.store(false, std::memory_order_relaxed);
        return true;
    }
    const auto found = parse(text, reason);
    if (!found)
        return false;
    const lock_guard guard(s.lock);
    if (!s.is_seeded || found->seed) {
        std::uint32_t seed = 0;
        if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
            seed = static_cast<std::uint32_t>(getpid());
        const std::uint64_t chosen = found->seed.value_or(seed);
        s.random.seed(chosen);
        s.is_seeded = true;
        fprintf(stderr, "softrdma: injecting faults in process %d with seed %" PRIu64 "\n", getpid(), chosen);
    }
    s.rules.insert(s.rules.end(), found->rules.begin(), found->rules.end());
    any_rules.store(!s.rules.empty(), std::memory_order_relaxed);
    return true;
}

void configure()
{
    static constinit process::single<const bool> done;
    done.get([] {
        using config::setting;
        std::string reason;
        const char *text = config::text(setting::fault);
        if (text != nullptr && !add(text, reason))
            config::reject(setting::fault, reason.c_str());
        return &process::yes;
    });
}

} // namespace softrdma::fault
