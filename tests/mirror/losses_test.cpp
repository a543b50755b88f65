// SPDX-License-Identifier: BSD-3-Clause
// The resources of a lost peer are released: after many losses a process has no more descriptors, threads and shared
// mappings than after the first ones. MIRROR_LOSSES is the number of losses (default 8). The targets are real.
#include "fixture.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace
{

struct holdings {
    std::size_t descriptors, threads, mappings;
    std::string open_files; // targets of the descriptors
};

std::size_t entries_of(const std::string &directory)
{
    const std::filesystem::directory_iterator all(directory);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::string open_files_of(const std::string &process)
{
    std::string names;
    for (const auto &entry : std::filesystem::directory_iterator(process + "/fd")) {
        std::error_code gone; // the descriptor was closed after it was listed
        names += entry.path().filename().string() + " " + read_symlink(entry.path(), gone).string() + "\n";
    }
    return names;
}

// Registered memory is shared with peers on the same host.
holdings holdings_of(pid_t pid)
{
    const std::string process = "/proc/" + std::to_string(pid);
    holdings now{entries_of(process + "/fd"), entries_of(process + "/task"), 0, open_files_of(process)};
    std::ifstream maps(process + "/maps");
    for (std::string line; std::getline(maps, line);)
        now.mappings += line.find(" /memfd:") != line.npos || line.ends_with("/part") || line.ends_with("/home");
    return now;
}

// The device releases its resources with a delay.
void expect_no_more(pid_t pid, const holdings &before)
{
    holdings now{};
    for (int attempt = 0; attempt < 3000; ++attempt) {
        now = holdings_of(pid);
        if (now.descriptors <= before.descriptors && now.threads <= before.threads && now.mappings <= before.mappings)
            return;
        usleep(10'000);
    }
    fail_msg("%zu descriptors, %zu threads, %zu mappings became %zu, %zu, %zu; open were\n%sand are\n%s",
            before.descriptors, before.threads, before.mappings, now.descriptors, now.threads, now.mappings,
            before.open_files.c_str(), now.open_files.c_str());
}

// Returns the resources that repeated calls of f leak.
template<class F>
void lose_often(pid_t pid, F f)
{
    const char *const wanted = std::getenv("MIRROR_LOSSES");
    const int losses = wanted == nullptr ? 8 : std::atoi(wanted);
    f();
    f();
    const holdings before = holdings_of(pid);
    for (int i = 0; i < losses; ++i)
        f();
    expect_no_more(pid, before);
}

void a_writer_that_loses_targets_holds_no_more(void **)
{
    target a, b;
    const host h;
    const cfg_ptr cfg = h.cfg({&a, &b});
    assert_ok(rpma_mirror_create(cfg.get()));
    const opened m(cfg.get());
    lose_often(getpid(), [&] {
        b.kill();
        m.put(0, "alone");
        b.start();
        assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
        assert_int_equal(m.state().in_sync, 7);
    });
}

void a_target_that_loses_writers_holds_no_more(void **)
{
    target a;
    const host h;
    const cfg_ptr cfg = h.cfg({&a});
    assert_ok(rpma_mirror_create(cfg.get()));
    lose_often(a.pid(), [&] {
        in_process_that_dies(
                [](void *of) { opened(static_cast<rpma_mirror_cfg *>(of)).put(0, "the last"); }, cfg.get());
    });
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
            cmocka_unit_test(a_writer_that_loses_targets_holds_no_more),
            cmocka_unit_test(a_target_that_loses_writers_holds_no_more),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
