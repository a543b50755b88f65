// SPDX-License-Identifier: BSD-3-Clause
#include "lane.hpp"

#include <algorithm>

namespace bench
{

lane::lane(const bench::layout &shape, const parameters &p, std::uint32_t number, std::byte *data, std::byte *messages)
    : number_(number), depth_(p.depth), read_percent_(p.read_percent.value_or(0)),
      random_access_(p.access == access::random), base_(shape.slice_base(number)), slice_(shape.slice()),
      header_(shape.header()), block_(shape.block()), blocks_(shape.blocks()), blocks_read_(shape.blocks_read()),
      message_base_(number * shape.client_messages()), slot_size_(shape.slot()), data_(data), messages_(messages),
      touched_(blocks_)
{
}

void lane::begin(std::uint64_t seed)
{
    seed_ = seed;
    random_ = pattern_word(seed, number_) | 1;
    reads_ = writes_ = 0;
    head_ = 0;
    std::ranges::fill(touched_, std::uint8_t{0});
    const std::size_t written_from = base_ + header_ + blocks_read_ * block_;
    std::memset(data_ + base_, 0, written_from - base_);
    fill_pattern(data_ + written_from, seed, written_from, base_ + slice_ - written_from);
    if (slot_size_ != 0)
        fill_pattern(messages_ + message_base_, seed, message_base_, 2 * depth_ * slot_size_);
}

bool lane::verify_reads() const
{
    for (std::size_t i = 0; i < blocks_read_; ++i) {
        const std::size_t offset = base_ + header_ + i * block_;
        if (touched_[i] != 0 && !has_pattern(data_ + offset, seed_, offset, block_))
            return false;
    }
    return true;
}

void lane::expect(std::byte *at) const
{
    std::memset(at, 0, slice_);
    if (header_ != 0)
        std::memcpy(at, &head_, sizeof head_);
    for (std::size_t i = 0; i < blocks_; ++i) {
        const std::size_t offset = header_ + i * block_;
        if (i < blocks_read_ || touched_[i] != 0)
            fill_pattern(at + offset, seed_, base_ + offset, block_);
    }
}

void fill_target(std::byte *data, const layout &shape, const parameters &p, std::uint64_t seed)
{
    std::memset(data, 0, shape.data_size());
    for (std::size_t c = 0; c < p.connections; ++c) {
        const std::size_t from = shape.slice_base(c) + shape.header();
        fill_pattern(data + from, seed, from, shape.blocks_read() * shape.block());
    }
}

} // namespace bench
