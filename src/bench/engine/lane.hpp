// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "layout.hpp"
#include "pattern.hpp"

namespace bench
{

// Part of the client's memory for one connection, and its reads and writes in the current run.
class lane
{
public:
    lane(const bench::layout &shape, const parameters &p, std::uint32_t number, std::byte *data, std::byte *messages);

    // Starts a run: fills the client's memory and resets the record of touched blocks.
    void begin(std::uint64_t seed);

    std::uint32_t number() const { return number_; }
    std::size_t block() const { return block_; }
    std::size_t base() const { return base_; }
    std::size_t slice() const { return slice_; }
    std::uint64_t seed() const { return seed_; }

    std::size_t next_read() { return next(reads_, 0, blocks_read_); }
    std::size_t next_write() { return next(writes_, blocks_read_, blocks_); }
    bool is_read_next() { return random() % 100 < read_percent_; }

    std::size_t send_slot(std::uint32_t slot) const { return message_base_ + slot * slot_size_; }
    std::size_t receive_slot(std::uint32_t slot) const { return message_base_ + (depth_ + slot) * slot_size_; }
    std::size_t slot_size() const { return slot_size_; }
    std::byte *message(std::size_t offset) const { return messages_ + offset; }
    const std::byte *content(std::size_t offset) const { return data_ + offset; }
    void set_head(std::uint64_t head) { head_ = head; }

    bool verify_reads() const;
    void expect(std::byte *at) const;

private:
    std::uint64_t random()
    {
        random_ ^= random_ << 13;
        random_ ^= random_ >> 7;
        random_ ^= random_ << 17;
        return random_;
    }
    std::size_t next(std::size_t &sequence, std::size_t from, std::size_t to)
    {
        std::size_t index;
        if (random_access_) {
            index = from + static_cast<std::size_t>((random() >> 32) * (to - from) >> 32);
        } else {
            index = from + sequence;
            if (++sequence == to - from)
                sequence = 0;
        }
        touched_[index] = 1;
        return base_ + header_ + index * block_;
    }

    std::uint32_t number_;
    std::uint32_t depth_;
    std::uint32_t read_percent_;
    bool random_access_;
    std::size_t base_, slice_, header_, block_, blocks_, blocks_read_;
    std::size_t message_base_, slot_size_;
    std::byte *data_, *messages_;
    std::size_t reads_ = 0, writes_ = 0;
    std::uint64_t random_ = 1;
    std::uint64_t seed_ = 0;
    std::uint64_t head_ = 0;
    std::vector<std::uint8_t> touched_;
};

// Fills the target's slices for a run: the pattern in the blocks that are read, zeros elsewhere.
void fill_target(std::byte *data, const layout &shape, const parameters &p, std::uint64_t seed);

} // namespace bench
