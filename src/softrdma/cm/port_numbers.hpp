// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/listener.hpp"

#include <bitset>
#include <vector>

namespace softrdma
{

// Queue pair numbers: a TCP port on which this process listens, and an index. Ports are opened and closed as needed.
class port_numbers
{
public:
    std::uint32_t reserve();
    void release(std::uint32_t number);
    bool has(std::uint32_t number) const noexcept;

private:
    static constexpr std::size_t per_port = 256;
    struct open_port {
        std::uint16_t port = 0;
        std::size_t next = 0; // delays the reuse of released numbers
        std::bitset<per_port> used;
        std::shared_ptr<listener> listening;
    };

    open_port *port_with_free_index();

    std::vector<open_port> ports_;
};

} // namespace softrdma
