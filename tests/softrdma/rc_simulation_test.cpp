// SPDX-License-Identifier: BSD-3-Clause
// Explores all orders of events between a requester and a responder that the stages below allow. A request completes
// with success only if the responder has executed it and all earlier ones, in order. Each signaled request completes
// once.
#include "rc_world.hpp"

#include <algorithm>
#include <cstdio>
#include <unordered_set>

namespace
{

struct totals {
    std::uint64_t worlds = 0; // number of states that differ in the event history of a side
    std::uint64_t ends = 0;
};

// Visits every world that the events can lead to. The event history of each side determines a world, so the
// interleaving of events of different sides does not matter.
class exploration
{
public:
    exploration(const world_options &options, totals &sum) : options_(options), sum_(sum) {}

    // Returns false after it has printed the events that led to a violation.
    bool run()
    {
        world_ = std::make_unique<rc_world>(options_);
        return visit();
    }

private:
    bool visit()
    {
        ++sum_.worlds;
        const auto enabled = world_->enabled();
        if (enabled.empty()) {
            ++sum_.ends;
            world_->check_end();
        }
        if (!world_->violation().empty()) {
            printf("plan %s%s%s: events %s: %s\n", options_.plan.c_str(), options_.managed ? ", managed" : "",
                    options_.congests ? ", congested" : "", path_.c_str(), world_->violation().c_str());
            return false;
        }
        const std::string reached = path_;
        const std::array<std::string, 2> sides = sides_;
        for (const event e : enabled) {
            sides_ = sides;
            sides_[is_at_requester(e)] += static_cast<char>(e);
            if (!visited_.insert(sides_[0] + '/' + sides_[1]).second)
                continue;
            if (world_ == nullptr)
                replay(reached);
            world_->apply(e);
            path_ += static_cast<char>(e);
            if (!visit())
                return false;
            world_.reset();
            path_ = reached;
        }
        return true;
    }

    void replay(const std::string &events)
    {
        world_.reset();
        world_ = std::make_unique<rc_world>(options_);
        for (const char e : events)
            world_->apply(static_cast<event>(e));
    }

    const world_options options_;
    totals &sum_;
    std::unique_ptr<rc_world> world_;
    std::string path_;
    std::array<std::string, 2> sides_;
    std::unordered_set<std::string> visited_;
};

// Letters that plans consist of, the maximum number of requests, and the options of the worlds.
struct stage {
    const char *name;
    std::string_view letters;
    std::size_t depth;
    std::size_t max_sends; // limit, because each SEND may be rejected and repeated, which multiplies the orders
    bool resets;           // also run with the connection manager, whose path survives a reset
    world_options options;
};

bool explore(const stage &s, const world_options &options, totals &sum)
{
    const std::size_t sends =
            static_cast<std::size_t>(std::count_if(options.plan.begin(), options.plan.end(), is_send));
    if (sends > s.max_sends)
        return true;
    world_options next = options;
    bool good = true;
    if (options.plan.size() < s.depth) {
        for (const char letter : s.letters) {
            next.plan = options.plan + letter;
            good = explore(s, next, sum) && good;
        }
        return good;
    }
    for (next.receives = 0; next.receives <= sends; ++next.receives)
        good = exploration(next, sum).run() && good;
    return good;
}

// Longer plans take minutes in an instrumented build and execute the same code.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t max_depth = 2;
#else
constexpr std::size_t max_depth = 4;
#endif

} // namespace

int main()
{
    using enum release_time;
    const stage stages[] = {
            {"one request", "SWwRAFmrkq", 1, 1, true, {}},
            {"one SEND in two segments, or too long", "sl", 1, 1, true, {.posted_at_once = true, .released = at_once}},
            {"two requests", "SWwR", 2, 1, true, {.released = at_once}},
            {"two requests at once", "SWwRk", 2, 1, true, {.posted_at_once = true}},
            {"two requests with a response of their own", "RAFq", 2, 0, true, {}},
            {"two SENDs", "S", 2, 2, true, {.posted_at_once = true, .released = at_once}},
            {"READs that wait or are broken off", "WRrk", 2, 0, true, {.congests = true, .posted_at_once = true}},
            {"three requests", "SWwR", 3, 1, false, {.posted_at_once = true, .released = at_once}},
            {"three requests, replies together", "SWwR", 3, 1, false, {.posted_at_once = true, .released = last}},
            {"four requests", "SWR", 4, 1, false, {.posted_at_once = true, .released = at_once}},
            {"four requests, replies together", "WwAFk", 4, 0, true, {.posted_at_once = true, .released = last}},
    };
    bool good = true;
    for (const stage &s : stages) {
        for (const bool managed : {false, true}) {
            if (s.depth > max_depth || (managed && !s.resets))
                continue;
            totals sum;
            world_options options = s.options;
            options.managed = managed;
            good = explore(s, options, sum) && good;
            printf("%s%s: %llu worlds, %llu ends\n", s.name, managed ? ", managed" : "",
                    static_cast<unsigned long long>(sum.worlds), static_cast<unsigned long long>(sum.ends));
            fflush(stdout);
        }
    }
    return good ? 0 : 1;
}
