// SPDX-License-Identifier: BSD-3-Clause
#include "set.hpp"

#include <algorithm>
#include <cerrno>

namespace mirror_tool
{

int call(const std::function<int()> &f, std::initializer_list<int> expected)
{
    errno = 0;
    const int code = f();
    if (code == 0 || std::ranges::find(expected, code) != expected.end())
        return code;
    // ENOMEDIUM: this machine cannot run the command without an RDMA device that reaches the targets.
    const bool no_device = errno == ENOMEDIUM;
    throw failure(rpma_mirror_error_message(), no_device ? exit_cannot_run : exit_failed, code);
}

cfg_ptr read_cfg(const std::string &set_file)
{
    rpma_mirror_cfg *created = nullptr;
    if (rpma_mirror_cfg_from_file(set_file.c_str(), &created) != 0)
        throw failure(rpma_mirror_error_message(), exit_usage);
    return cfg_ptr(created);
}

std::unique_ptr<rpma_mirror_state> inspect(const rpma_mirror_cfg *cfg)
{
    auto state = make_output<rpma_mirror_state>();
    call([&] { return rpma_mirror_inspect(cfg, state.get()); });
    return state;
}

void check_not_in_use(const rpma_mirror_cfg *cfg)
{
    const auto state = inspect(cfg);
    const bool is_local_writer = std::ranges::any_of(state->copies,
            [](const rpma_mirror_copy &c) { return c.is_local != 0 && c.state == RPMA_MIRROR_COPY_IN_SYNC; });
    if (state->epoch != 0 && !state->clean && !is_local_writer)
        throw failure("set may be in use by the machine that wrote last (run the command there, or promote this "
                      "machine with rpma-mirror promote)",
                exit_failed);
}

open_set::open_set(const rpma_mirror_cfg *cfg, bool force)
{
    void *address = nullptr;
    call([&] { return rpma_mirror_map(cfg, nullptr, force ? RPMA_MIRROR_F_FORCE : 0, &address, &mirror_); });
}

std::unique_ptr<rpma_mirror_state> open_set::state() const
{
    auto state = make_output<rpma_mirror_state>();
    call([&] { return rpma_mirror_get_state(mirror_, state.get()); });
    return state;
}

int open_set::verify(unsigned copy, progress &display, rpma_mirror_verify_report &report)
{
    return call([&] { return rpma_mirror_verify(mirror_, copy, display.resync_options(), &report); },
            {RPMA_MIRROR_E_VERIFY, RPMA_MIRROR_E_STALE});
}

void open_set::add(unsigned copy, const std::string &location, const std::string &pool_set, progress &display)
{
    call([&] {
        return rpma_mirror_add_target(mirror_, copy, location.c_str(), pool_set.c_str(), display.resync_options());
    });
}

int open_set::remove(unsigned copy, progress &)
{
    return call([&] { return rpma_mirror_remove_target(mirror_, copy); }, {RPMA_MIRROR_E_NOT_FOUND});
}

std::unique_ptr<rpma_mirror_recovery_report> open_set::opening() const
{
    auto report = make_output<rpma_mirror_recovery_report>();
    call([&] { return rpma_mirror_get_recovery_report(mirror_, report.get()); });
    return report;
}

void open_set::end(bool unchanged)
{
    if (unchanged)
        mirror_ = nullptr;
    else
        call([&] { return rpma_mirror_unmap(&mirror_); });
}

std::vector<unsigned> copies_of(unsigned bits)
{
    std::vector<unsigned> copies;
    for (unsigned copy = 0; copy < RPMA_MIRROR_MAX_COPIES; ++copy)
        if ((bits >> copy & 1) != 0)
            copies.push_back(copy);
    return copies;
}

} // namespace mirror_tool
