// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "config/failure.hpp"
#include "config/log.hpp"
#include "store/pool.hpp"
#include "store/pool_record.hpp"
#include "store/set_file.hpp"

namespace rpmemd
{

namespace
{

template<class F>
void attempt(bool force, F f)
{
    try {
        f();
    } catch (const failure &error) {
        if (!force)
            throw;
        log(log_level::warn, error.what());
    }
}

// Without force, removes the parts only if all of them exist and are unused. Never removes a part that is in use.
void remove_parts(const poolset &set, const part_options &options, bool force)
{
    std::vector<part> parts;
    // Opens directories together, because the numbering of the files spans all of them.
    if (!force || std::ranges::any_of(set.parts, is_directory)) {
        attempt(force, [&] { parts = open_parts(set, options); });
    } else {
        for (const part_line &line : set.parts) {
            poolset one = set;
            one.parts = {line};
            attempt(force, [&] { std::ranges::move(open_parts(one, options), std::back_inserter(parts)); });
        }
    }
    for (part &p : parts)
        attempt(force, [&p] { p.remove(); });
}

} // namespace

void remove_pool(const config &settings, const std::string &set_name)
{
    const part_options options{false, settings.follow_symlinks, settings.umask, true, true};
    attempt(settings.force, [&] {
        const poolset set = read_poolset(settings.poolset_dir, set_name);
        remove_parts(set, options, settings.force);
        pool_record(settings, set_name).remove();
    });
    if (settings.pool_set)
        attempt(settings.force, [&] { remove_set_file(settings.poolset_dir, set_name); });
}

} // namespace rpmemd
