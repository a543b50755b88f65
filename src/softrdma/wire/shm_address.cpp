// SPDX-License-Identifier: BSD-3-Clause
#include "wire/shm_address.hpp"
#include "bytes.hpp"

namespace softrdma
{

constexpr auto reasons = static_cast<std::size_t>(no_shm_reason::count);

const char *text_of(no_shm_reason reason) noexcept
{
    constexpr std::array<const char *, reasons> texts{"unknown reason", "one of them shares no memory",
            "they are on different hosts", "they belong to different users", "they are in different network namespaces",
            "access between the processes is denied by the system"};
    return texts[static_cast<std::size_t>(reason)];
}

const char *name_of(no_shm_reason reason) noexcept
{
    constexpr std::array<const char *, reasons> names{
            "unknown", "not-shared", "other-host", "other-user", "other-netns", "denied"};
    return names[static_cast<std::size_t>(reason)];
}

void put(byte_writer &w, const shm_address &h) noexcept
{
    if (!h.present && h.absence_reason != no_shm_reason::none)
        w.put(static_cast<std::uint8_t>(h.absence_reason));
    if (!h.present)
        return;
    w.put_raw(h.owner.boot.data(), h.owner.boot.size()).put(h.owner.uid).put(h.owner.pid);
    w.put(h.owner.start_time).put(h.token[0]).put(h.token[1]);
    w.put(h.qp_offset).put(h.qp_size).put(h.connection).put(h.first_receive).put(h.completion_fd).put(h.fd_server);
}

bool get(byte_reader &r, shm_address &h) noexcept
{
    h = {};
    if (r.rest().empty())
        return true;
    if (r.rest().size() == sizeof(no_shm_reason)) {
        const auto reason = r.get<std::uint8_t>();
        h.absence_reason = static_cast<no_shm_reason>(reason);
        return reason > 0 && reason < reasons;
    }
    h.present = true;
    r.get_raw(h.owner.boot.data(), h.owner.boot.size()).get(h.owner.uid).get(h.owner.pid);
    r.get(h.owner.start_time).get(h.token[0]).get(h.token[1]);
    r.get(h.qp_offset).get(h.qp_size).get(h.connection).get(h.first_receive).get(h.completion_fd).get(h.fd_server);
    return r.good() && r.rest().empty();
}

} // namespace softrdma
