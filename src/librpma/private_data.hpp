// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "error.hpp"

namespace rpma
{

// Copy of the private data of a connection event. One thread may store it while others read.
class private_data
{
public:
    private_data() = default;
    private_data(private_data &&other) noexcept : block_(other.block_.exchange(nullptr)) {}
    private_data &operator=(private_data &&other) noexcept
    {
        std::free(block_.exchange(other.block_.exchange(nullptr)));
        return *this;
    }
    ~private_data() { std::free(block_.load()); }

    static result<private_data> copy(const void *bytes, std::uint8_t length)
    {
        private_data copied;
        if (bytes == nullptr || length == 0)
            return copied;
        auto *const created = static_cast<block *>(std::malloc(offsetof(block, bytes) + length));
        if (created == nullptr)
            return errc::nomem;
        created->length = length;
        std::memcpy(created->bytes, bytes, length);
        copied.block_.store(created);
        return copied;
    }

    bool empty() const { return block_.load() == nullptr; }

    rpma_conn_private_data view() const
    {
        block *const stored = block_.load();
        return stored == nullptr ? rpma_conn_private_data{nullptr, 0}
                                 : rpma_conn_private_data{stored->bytes, stored->length};
    }

private:
    struct block {
        std::uint8_t length;
        alignas(std::max_align_t) unsigned char bytes[1]; // aligned, because programs cast the bytes to structures
    };

    std::atomic<block *> block_ = nullptr;
};

} // namespace rpma
