// SPDX-License-Identifier: BSD-3-Clause
#include "base/siphash.hpp"

#include <bit>
#include <cstdint>

#include "endian.hpp"

namespace replica
{

namespace
{

std::uint64_t word_at(const std::byte *at)
{
    return load_le<std::uint64_t>(reinterpret_cast<const unsigned char *>(at));
}

class sip_state
{
public:
    explicit sip_state(const siphash_key &key)
    {
        const std::uint64_t k0 = word_at(key.data());
        const std::uint64_t k1 = word_at(key.data() + 8);
        v0_ ^= k0;
        v1_ ^= k1;
        v2_ ^= k0;
        v3_ ^= k1;
        v1_ ^= 0xee; // selects the 128-bit variant
    }

    void absorb(std::uint64_t word)
    {
        v3_ ^= word;
        rounds(2);
        v0_ ^= word;
    }

    siphash_result finish()
    {
        siphash_result result;
        auto *const to = reinterpret_cast<unsigned char *>(result.data());
        v2_ ^= 0xee;
        rounds(4);
        store_le(to, v0_ ^ v1_ ^ v2_ ^ v3_);
        v1_ ^= 0xdd;
        rounds(4);
        store_le(to + 8, v0_ ^ v1_ ^ v2_ ^ v3_);
        return result;
    }

private:
    void rounds(int count)
    {
        for (int i = 0; i < count; ++i) {
            v0_ += v1_;
            v2_ += v3_;
            v1_ = std::rotl(v1_, 13) ^ v0_;
            v3_ = std::rotl(v3_, 16) ^ v2_;
            v0_ = std::rotl(v0_, 32);
            v2_ += v1_;
            v0_ += v3_;
            v1_ = std::rotl(v1_, 17) ^ v2_;
            v3_ = std::rotl(v3_, 21) ^ v0_;
            v2_ = std::rotl(v2_, 32);
        }
    }

    std::uint64_t v0_ = 0x736f6d6570736575;
    std::uint64_t v1_ = 0x646f72616e646f6d;
    std::uint64_t v2_ = 0x6c7967656e657261;
    std::uint64_t v3_ = 0x7465646279746573;
};

} // namespace

siphash_result siphash_128(const siphash_key &key, std::span<const std::byte> message)
{
    sip_state state(key);
    const std::uint64_t length = message.size();
    for (; message.size() >= 8; message = message.subspan(8))
        state.absorb(word_at(message.data()));
    std::uint64_t last = length << 56;
    for (std::size_t i = 0; i < message.size(); ++i)
        last |= std::to_integer<std::uint64_t>(message[i]) << (8 * i);
    state.absorb(last);
    return state.finish();
}

} // namespace replica
