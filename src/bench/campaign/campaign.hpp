// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "control/ends.hpp"
#include "plan.hpp"
#include "results.hpp"

// Measures the points of a plan one after another and keeps the result file up to date.
namespace bench
{

// The file of an earlier run and what is left to do. Throws failure or results_error.
struct resumed {
    results earlier;
    bench::plan plan;
};
// otherwise: if no point is done by whose timing to go on.
resumed resume_from(const std::string &path, const timing &otherwise);

// What a plan leaves to the place: which target the server has, and whether there are processors enough to poll at
// both ends.
std::vector<setup> settle(const std::vector<setup> &setups, const ends &where);

// Empty results with the environment of the two ends.
results begin_results(const std::string &profile, const ends &where);

// Why the point cannot be measured here; empty if it can.
std::string why_skip(const setup &what, const target_facts &target);

// Measures what is not done in r.points. The file at path is complete after each point. False if a point failed or a
// side is gone, which it then says on stderr.
bool run_campaign(ends &where, const timing &t, results &r, const std::string &path);

// The points of the plan, all yet to be measured.
void add_points(results &r, const std::vector<setup> &setups);

std::string now_utc();

} // namespace bench
