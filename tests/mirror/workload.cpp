// SPDX-License-Identifier: BSD-3-Clause
#include "environment.h"
#include "workload.hpp"

namespace
{

constexpr std::uint64_t first_slot = 64 * 1024;
constexpr std::uint64_t slot_size = 4096 + 64;
constexpr std::uint64_t published_at = 1024;

} // namespace

std::uint64_t word_of(std::uint64_t number)
{
    return number << 16 | (number * 0x9e3779b97f4a7c15 >> 48);
}

std::uint64_t slot_at(std::uint64_t number)
{
    return first_slot + number % slots * slot_size;
}

int write_one(const opened &m, std::uint64_t number, shared_facts &facts)
{
    const std::uint64_t at = slot_at(number), word = word_of(number);
    const rpma_mirror_range ranges[] = {{at, 8}, {at + 1000, 8}, {at + 4096, 16}};
    for (const std::uint64_t part : words_of_slot)
        std::memcpy(m.address() + at + part, &word, sizeof(word));
    int code = 0;
    if (number % 3 == 0) {
        std::uint64_t ticket = 0;
        code = rpma_mirror_flush_start(m.get(), 0, ranges, 3, 0, &ticket);
        code = code == 0 ? rpma_mirror_flush_wait(m.get(), 0, ticket, -1) : code;
    } else {
        code = rpma_mirror_optimized_flush(
                m.get(), 0, ranges, 3, number % 3 == 1 ? RPMA_MIRROR_F_LAST_RANGE_ORDERED : 0);
    }
    if (code != 0)
        return code;
    facts.acknowledged = number;
    if (number % 4 != 0)
        return 0;
    code = rpma_mirror_atomic_write(m.get(), 0, published_at, word);
    if (code == 0)
        facts.published = number;
    return code;
}

void run_rounds(const std::function<void(std::uint64_t seed)> &round)
{
    const std::uint64_t begin = number_from("MIRROR_KILL_SEED", 1), count = number_from("MIRROR_KILL_ROUNDS", 8);
    for (std::uint64_t seed = begin; seed < begin + count; ++seed) {
        print_message("seed %lu\n", seed);
        round(seed);
    }
}

void check_all(const opened &m, const shared_facts &facts)
{
    const std::uint64_t last = facts.acknowledged;
    for (std::uint64_t number = last > slots ? last - slots + 1 : 1; number <= last; ++number) {
        for (const std::uint64_t part : words_of_slot) {
            std::uint64_t word = 0;
            std::memcpy(&word, m.address() + slot_at(number) + part, sizeof(word));
            if (word != word_of(word >> 16) || word >> 16 < number)
                fail_msg("flush %lu of %lu is lost: there is %lx", number, last, word);
        }
    }
    std::uint64_t word = 0;
    std::memcpy(&word, m.address() + published_at, sizeof(word));
    if (word >> 16 < facts.published || (word != 0 && word != word_of(word >> 16)))
        fail_msg("published %lu, and there is %lx", facts.published.load(), word);
}

void check_copies(const opened &m, const std::vector<const target *> &targets)
{
    const std::string ours(m.address(), length);
    for (const target *const t : targets)
        assert_true(t->bytes(0, length) == ours);
}
