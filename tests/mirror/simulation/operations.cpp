// SPDX-License-Identifier: BSD-3-Clause
// Simulated operations of librpma and their completions.
#include <algorithm>
#include <cstring>

#include "storage.hpp"
#include "verbs.hpp"

using namespace simulation;

extern "C" {

int rpma_cq_wait(rpma_cq *of)
{
    completion_queue &cq = *of->of;
    world::instance->wait([&] { return cq.events != 0; }, -1);
    --cq.events;
    cq.armed = true;
    return 0;
}

int rpma_cq_get_wc(rpma_cq *of, int num_entries, ibv_wc *to, int *got)
{
    auto &completions = of->of->completions;
    if (completions.empty())
        return RPMA_E_NO_COMPLETION;
    int count = 0;
    for (; count < num_entries && !completions.empty(); ++count) {
        to[count] = completions.front();
        completions.pop_front();
    }
    if (got != nullptr)
        *got = count;
    return 0;
}

int rpma_conn_disconnect(rpma_conn *of)
{
    of->pair->disconnect();
    world::instance->perhaps_switch();
    return 0;
}

int rpma_conn_delete(rpma_conn **of)
{
    if (*of != nullptr) {
        queue_pair &pair = *(*of)->pair;
        pair.vanish(false);
        world::instance->close(pair.cq_fd);
        world::instance->close(pair.cm_fd);
        world::instance->perhaps_switch();
    }
    return deleted(of);
}

// Stores aligned words in order, each atomically. In a long range, the state is checked after each KiB.
static void store_words(std::byte *to, const void *from, size_t size, unsigned machine)
{
    const size_t step = size <= 64 ? 8 : 1024;
    const auto address = reinterpret_cast<std::uintptr_t>(to);
    for (size_t at = 0; at < size;) {
        const size_t next = std::min<size_t>(size, (address + at) / 8 * 8 + step - address);
        std::memcpy(to + at, static_cast<const std::byte *>(from) + at, next - at);
        at = next;
        adapter->amid_write(machine);
    }
}

// Sends each chunk of the range in its own packet. The device reads the chunk when it sends it, possibly long after the
// post.
static int write_piece(queue_pair &by, std::uint32_t key, size_t to, const std::byte *source, size_t size, int flags,
        const void *context)
{
    process *const writer = &world::instance->here();
    const bool late = world::instance->one_in(2);
    return by.post(number_of(context), flags,
            [=, bytes = std::string(reinterpret_cast<const char *>(source), size), epoch = by.epoch](queue_pair &at) {
                std::byte *const memory = adapter->reach(*at.owner, key, to, size);
                if (memory == nullptr)
                    return false;
                adapter->before_write(at.owner->machine, epoch);
                const bool reads_now = late && writer->alive && !writer->stopped;
                store_words(
                        memory, reads_now ? static_cast<const void *>(source) : bytes.data(), size, at.owner->machine);
                return true;
            });
}

int rpma_write(rpma_conn *conn, rpma_mr_remote *to, size_t to_offset, const rpma_mr_local *from, size_t offset,
        size_t size, int flags, const void *context)
{
    constexpr size_t packet = 16 * 1024;
    for (; size > packet; size -= packet, to_offset += packet, offset += packet)
        write_piece(*conn->pair, to->key, to_offset, from->address + offset, packet, 0, context);
    return write_piece(*conn->pair, to->key, to_offset, from->address + offset, size, flags, context);
}

int rpma_atomic_write(
        rpma_conn *conn, rpma_mr_remote *to, size_t to_offset, const char from[8], int flags, const void *context)
{
    return conn->pair->post(number_of(context), flags,
            [=, key = to->key, bytes = std::string(from, 8), epoch = conn->pair->epoch](queue_pair &at) {
                std::byte *const memory = adapter->reach(*at.owner, key, to_offset, 8);
                if (memory == nullptr || adapter->refuses_native())
                    return false;
                adapter->before_write(at.owner->machine, epoch);
                store_words(memory, bytes.data(), 8, at.owner->machine);
                return true;
            });
}

int rpma_flush(rpma_conn *conn, rpma_mr_remote *to, size_t offset, size_t size, rpma_flush_type type, int flags,
        const void *context)
{
    return conn->pair->post(number_of(context), flags, [=, key = to->key](queue_pair &at) {
        std::byte *const memory = adapter->reach(*at.owner, key, offset, size);
        if (memory == nullptr || adapter->refuses_native())
            return false;
        if (type == RPMA_FLUSH_TYPE_PERSISTENT && adapter->flushes(disks->persistent_memory))
            disks->persist(memory, size);
        return true;
    });
}

int rpma_read(rpma_conn *conn, rpma_mr_local *to, size_t to_offset, const rpma_mr_remote *from, size_t offset,
        size_t size, int flags, const void *context)
{
    const auto bytes = std::make_shared<std::string>();
    std::byte *const goal = to->address + to_offset;
    return conn->pair->post(
            number_of(context), flags,
            [=, key = from->key](queue_pair &at) {
                const std::byte *const memory = adapter->reach(*at.owner, key, offset, size);
                if (memory != nullptr)
                    bytes->assign(reinterpret_cast<const char *>(memory), size);
                return memory != nullptr;
            },
            [=, region = to->key, machine = world::instance->here().machine] {
                // The memory of a region that was deregistered can be free.
                if (adapter->regions.contains(region))
                    store_words(goal, bytes->data(), size, machine);
            });
}

int rpma_send(rpma_conn *conn, const rpma_mr_local *from, size_t offset, size_t size, int flags, const void *context)
{
    return conn->pair->post(number_of(context), flags,
            [bytes = std::string(reinterpret_cast<const char *>(from->address + offset), size)](queue_pair &at) {
                if (at.receives.empty() || at.receives.front().size < bytes.size())
                    return false;
                std::memcpy(at.receives.front().to, bytes.data(), bytes.size());
                ibv_wc wc{};
                wc.wr_id = at.receives.front().context;
                wc.opcode = IBV_WC_RECV;
                wc.byte_len = static_cast<std::uint32_t>(bytes.size());
                at.receives.pop_front();
                at.cq->push(wc);
                return true;
            });
}

int rpma_recv(rpma_conn *conn, rpma_mr_local *to, size_t offset, size_t size, const void *context)
{
    conn->pair->receives.push_back({to->address + offset, size, number_of(context)});
    return 0;
}

} // extern "C"
