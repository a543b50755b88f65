// SPDX-License-Identifier: BSD-3-Clause
#include "pmem/power_cut.hpp"
#include "base/process.hpp"
#include "base/config.hpp"
#include "base/lock.hpp"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <random>
#include <string_view>
#include <sys/random.h>
#include <unistd.h>

namespace softrdma::pmem::power_cut
{

std::atomic<bool> is_armed = false;

namespace
{

constexpr std::size_t line_size = 64;
constexpr std::size_t words_of_line = line_size / sizeof(std::uint64_t);
constexpr int exit_code = 137; // exit code of a process that was killed

struct line {
    std::array<std::uint64_t, words_of_line> former;
    unsigned stored_words = 0; // bit i: the device has stored to word i
};

unsigned words_of_range(std::uintptr_t line_begin, std::uintptr_t begin, std::uintptr_t end) noexcept
{
    const std::size_t from = begin > line_begin ? (begin - line_begin) / sizeof(std::uint64_t) : 0;
    const std::size_t to = (end - line_begin + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
    unsigned words = 0;
    for (std::size_t i = from; i < to && i < words_of_line; ++i)
        words |= 1u << i;
    return words;
}

struct undo_log {
    ordered_mutex lock{lock_level::leaf};
    std::map<std::uintptr_t, line> lines GUARDED_BY(
            lock); // in address order, so that a seed has the same effect in each run
    std::uint64_t operations GUARDED_BY(lock) = 0;
    // Configuration, constant after configure().
    std::uint64_t cut_after = 0; // 0 to cut on request only
    std::uint64_t seed = 0;
};

bool parse(std::string_view text, undo_log &l)
{
    bool seeded = false;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find_first_of(",|"));
        text.remove_prefix(word.size() == text.size() ? word.size() : word.size() + 1);
        const auto number = word.substr(word.find(':') == word.npos ? word.size() : word.find(':') + 1);
        if (word.starts_with("after:") && config::parse_number(number, l.cut_after) && l.cut_after > 0)
            continue;
        if (word.starts_with("seed:") && config::parse_number(number, l.seed)) {
            seeded = true;
            continue;
        }
        if (word != "armed")
            return false;
    }
    if (!seeded && getrandom(&l.seed, sizeof(std::uint32_t), 0) != sizeof(std::uint32_t))
        l.seed = static_cast<std::uint64_t>(getpid());
    return true;
}

std::uint64_t load(std::uintptr_t at) noexcept
{
    return __atomic_load_n(reinterpret_cast<const std::uint64_t *>(at), __ATOMIC_RELAXED);
}

void store(std::uintptr_t at, std::uint64_t word) noexcept
{
    __atomic_store_n(reinterpret_cast<std::uint64_t *>(at), word, __ATOMIC_RELAXED);
}

struct losses {
    unsigned lost = 0;
    unsigned torn = 0;
    unsigned kept = 0;
};

losses lose_lines(const undo_log &l) REQUIRES(l.lock)
{
    std::mt19937_64 random(l.seed);
    losses result;
    for (const auto &[begin, entry] : l.lines) {
        const auto fate = random() % 3;
        const std::uint64_t lost_words = fate == 0 ? ~0ULL : fate == 1 ? random() : 0;
        (fate == 0 ? result.lost : fate == 1 ? result.torn : result.kept) += 1;
        for (std::size_t i = 0; i < words_of_line; ++i) {
            if ((lost_words & entry.stored_words) >> i & 1)
                store(begin + i * sizeof(std::uint64_t), entry.former[i]);
        }
    }
    return result;
}

[[noreturn]] void cut_locked(const undo_log &l) REQUIRES(l.lock)
{
    const losses result = lose_lines(l);
    fprintf(stderr,
            "softrdma: power cut after %" PRIu64 " operations with seed %" PRIu64
            ": %zu lines were not flushed, %u lost, %u torn, %u kept\n",
            l.operations, l.seed, l.lines.size(), result.lost, result.torn, result.kept);
    _exit(exit_code);
}

} // namespace

void configure()
{
    static constinit process::single<const bool> done;
    done.get([] {
        using config::setting;
        const char *text = config::text(setting::powercut);
        if (text == nullptr)
            return &process::yes;
        undo_log &l = process::instance<undo_log>();
        if (!parse(text, l))
            config::reject(
                    setting::powercut, "unknown form (use armed, after:N or after:N,seed:S with numbers N and S)");
        is_armed = true;
        fprintf(stderr, "softrdma: power cut armed in process %d with seed %" PRIu64 "\n", getpid(), l.seed);
        return &process::yes;
    });
}

void about_to_store(std::uintptr_t begin, std::size_t bytes)
{
    undo_log &l = process::instance<undo_log>();
    const lock_guard guard(l.lock);
    for (std::uintptr_t at = begin & ~(line_size - 1); at < begin + bytes; at += line_size) {
        const auto [entry, is_new] = l.lines.try_emplace(at);
        for (std::size_t i = 0; is_new && i < words_of_line; ++i)
            entry->second.former[i] = load(at + i * sizeof(std::uint64_t));
        entry->second.stored_words |= words_of_range(at, begin, begin + bytes);
    }
}

void on_durable(std::uintptr_t begin, std::size_t bytes)
{
    undo_log &l = process::instance<undo_log>();
    const lock_guard guard(l.lock);
    l.lines.erase(l.lines.lower_bound(begin & ~(line_size - 1)), l.lines.lower_bound(begin + bytes));
}

void operation_done()
{
    undo_log &l = process::instance<undo_log>();
    const lock_guard guard(l.lock);
    if (++l.operations == l.cut_after)
        cut_locked(l);
}

void cut()
{
    undo_log &l = process::instance<undo_log>();
    const lock_guard guard(l.lock);
    cut_locked(l);
}

} // namespace softrdma::pmem::power_cut
