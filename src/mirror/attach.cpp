// SPDX-License-Identifier: BSD-3-Clause
#include "attach.hpp"

#include "failure.hpp"
#include "message/status.hpp"

namespace mirror
{

std::uint32_t devices_of(rpma_mirror_device device)
{
    return device == RPMA_MIRROR_DEVICE_KERNEL     ? replica::device_hardware
           : device == RPMA_MIRROR_DEVICE_SOFTRDMA ? replica::device_software
                                                   : replica::device_hardware | replica::device_software;
}

std::unique_ptr<replica::region> connect_lanes(const target_settings &to, const replica::wire::region &target,
        const replica::region::settings &params, const replica::deadline &until)
{
    auto created = std::make_unique<replica::region>();
    if (const int error = created->lost().open(); error != 0)
        throw system_failure("cannot create an event", error);
    replica::error_text reason;
    if (const int error = created->open(target, params, until, &reason); error != 0)
        throw failure(replica::is_local_shortage(error) ? RPMA_MIRROR_E_SYSTEM : RPMA_MIRROR_E_CONNECTION,
                "target " + to.name() + ": " + reason.c_str(), error);
    return created;
}

replica::mirror_state resize(const membership &of, const remote_copy &c, channel &control, std::uint64_t length,
        bool reserve, const replica::deadline &until)
{
    replica::request r = of.writer.make_promise_request(c);
    r.mutable_resize()->set_length(length);
    r.mutable_resize()->set_reserve(reserve);
    return replica::from_wire(control.call(r, until).state());
}

connected attach(const set_parts &of, remote_copy &c, channel &control, std::uint64_t copy_length,
        const replica::deadline &until)
{
    // The set has grown, or its growth was interrupted.
    if (copy_length != of.local.length())
        resize(of.members, c, control, of.local.length(), false, until);
    replica::request r = of.members.writer.make_promise_request(c);
    r.mutable_attach()->set_lanes(of.configured.lanes + 1);
    r.mutable_attach()->set_devices(devices_of(of.configured.device));
    const replica::wire::region target = control.call(r, until).region();
    if (target.lanes() < of.configured.lanes + 1)
        throw failure(RPMA_MIRROR_E_REJECTED, "target " + c.where.name() + ": " + std::to_string(target.lanes()) +
                                                      " lanes available, " + std::to_string(of.configured.lanes + 1) +
                                                      " required (see max-lanes in rpmemd.conf)");
    replica::region::settings params;
    params.address = of.local.address();
    params.size = of.local.length();
    params.fetches = true;
    params.depth = of.configured.depth;
    params.devices = r.attach().devices();
    params.timeout_ms = of.configured.operation_ms;
    params.epoch = of.members.writer.promise.epoch;
    connected created{connect_lanes(c.where, target, params, until), RPMA_MIRROR_LEVEL_VOLATILE};
    created.level = static_cast<rpma_mirror_level>(created.region->level());
    if (created.level < of.configured.min_level)
        throw failure(RPMA_MIRROR_E_LEVEL_TOO_LOW, "target " + c.where.name() + ": persistence level too low");
    return created;
}

void create_copy(const membership &of, const remote_copy &c, channel &control, std::uint64_t length,
        const replica::deadline &until)
{
    replica::request r = of.writer.make_promise_request(c);
    r.mutable_create_copy()->set_copy(c.where.copy);
    r.mutable_create_copy()->set_length(length);
    try {
        control.call(r, until);
    } catch (const failure &error) {
        if (error.code() != RPMA_MIRROR_E_EXISTS)
            throw;
        const replica::mirror_state existing =
                replica::from_wire(control.call(c.make_state_request(of.writer.set), until).state());
        // The length can differ: the set may have grown, and attach() changes the length of the copy.
        if (existing.set != of.writer.set || existing.copy != c.where.copy)
            throw;
    }
}

} // namespace mirror
