// SPDX-License-Identifier: BSD-3-Clause
// The whole protocol of mirrored sets, or with the argument `pools` that of pools of librpmem, with many seeds.
// RPMA_MIRROR_SEEDS is their number. RPMA_MIRROR_SEED runs one seed alone, and prints its events.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/log.hpp"
#include "scenario.hpp"

namespace
{

// Number of seeds per process: the memory of dead simulated processes is not released.
constexpr std::uint64_t seeds_at_once = 50;
// With at least this number of seeds, the test requires a minimum number of simulated power failures.
constexpr std::uint64_t usual_seeds = 200, min_cuts = 1'000'000;

// Seeds above the usual ones that failed.
constexpr std::uint64_t failed_before[] = {461, 3625, 4423, 7366, 8276, 8834};

// Sum over all processes.
std::atomic<std::uint64_t> *cuts = nullptr;
bool pools = false;

std::uint64_t from_environment(const char *name, std::uint64_t otherwise)
{
    const char *const text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::uint64_t run_one(std::uint64_t seed, const std::string &place, bool loud)
{
    simulation::scenario s(seed, place, pools, loud);
    s.run();
    *cuts += s.cuts();
    if (loud)
        std::printf("seed %lu: %s\n", seed, s.summary().c_str());
    return s.fingerprint();
}

void run_some(std::uint64_t first, std::uint64_t end, const std::string &place)
{
    for (std::uint64_t seed = first; seed < end; ++seed)
        run_one(seed, place, std::getenv("RPMA_MIRROR_SUMMARY") != nullptr);
    if (first == 0)
        for (const std::uint64_t seed : failed_before)
            run_one(seed, place, false);
    // A seed always produces the same history.
    if (run_one(first, place, false) != run_one(first, place, false)) {
        std::printf("seed %lu is not the same twice\n", first);
        std::fflush(nullptr);
        _exit(1);
    }
}

bool run_all(std::uint64_t count, const std::string &place)
{
    std::uint64_t next = from_environment("RPMA_MIRROR_FIRST_SEED", 0);
    std::uint64_t running = 0;
    const std::uint64_t workers = from_environment("RPMA_MIRROR_WORKERS", 2);
    bool good = true;
    while ((good && next < count) || running > 0) {
        if (good && next < count && running < workers) {
            const std::uint64_t end = std::min(next + seeds_at_once, count);
            if (fork() == 0) {
                run_some(next, end, place);
                std::fflush(nullptr);
                _exit(0);
            }
            next = end;
            ++running;
            continue;
        }
        int status = 0;
        wait(&status);
        --running;
        good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (WIFSIGNALED(status))
            std::printf("a seed before %lu ended with signal %d\n", next, WTERMSIG(status));
    }
    return good;
}

} // namespace

int main(int argc, char **argv)
{
    pools = argc > 1 && std::strcmp(argv[1], "pools") == 0;
    std::string place = "/dev/shm/mirror-simulation-XXXXXX";
    if (mkdtemp(place.data()) == nullptr) {
        std::perror(place.c_str());
        return 1;
    }
    void *const shared = mmap(nullptr, sizeof(*cuts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        std::perror("mmap");
        return 1;
    }
    cuts = new (shared) std::atomic<std::uint64_t>(0);
    rpmemd::log_threshold(rpmemd::log_level::err);
    // Each lost client is an error to the daemon of a pool.
    if (pools && std::getenv("RPMA_MIRROR_SEED") == nullptr)
        rpmemd::log_to_file("/dev/null");
    const std::uint64_t seeds = from_environment("RPMA_MIRROR_SEEDS", usual_seeds);
    bool good = true;
    if (std::getenv("RPMA_MIRROR_SEED") != nullptr)
        run_one(from_environment("RPMA_MIRROR_SEED", 0), place, true);
    else if (good = run_all(seeds, place); good)
        std::printf("%lu seeds, %lu power failures amid writes\n", seeds, cuts->load());
    if (good && !pools && seeds >= usual_seeds && std::getenv("RPMA_MIRROR_SEED") == nullptr && *cuts < min_cuts) {
        std::printf("too few power failures: at least %lu are required\n", min_cuts);
        good = false;
    }
    std::filesystem::remove_all(place);
    return good ? 0 : 1;
}
