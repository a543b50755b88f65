// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"
#include "abi/device.hpp"
#include "cm/roce_connect.hpp"
#include "admin/control.hpp"
#include "base/config.hpp"
#include "base/gid_table.hpp"
#include "fault/rules.hpp"
#include "pmem/power_cut.hpp"
#include "trace/recorder.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/fd_server.hpp"
#include "transport/rc/rc_transport.hpp"
#include "verbs/mw.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace softrdma::abi
{

namespace
{

constexpr std::uint64_t port_speed = 1000;             // link_rate in units of 100 Mb/s
constexpr std::uint32_t vendor_id = device_guid >> 40; // the first three bytes, as for all vendors

// Provider libraries cast an ibv_device to a larger type: the following bytes must be readable and match no address.
struct device_block {
    ibv_device device{};
    std::array<std::byte, 128> padding{};
};

constinit device_block the_block{.device = {._ops = {},
                                         .node_type = IBV_NODE_CA,
                                         .transport_type = IBV_TRANSPORT_IB,
                                         .name = "softrdma0",
                                         .dev_name = "uverbs-softrdma0",
                                         .dev_path = "/sys/class/infiniband_verbs/uverbs-softrdma0",
                                         .ibdev_path = "/sys/class/infiniband/softrdma0"},
        .padding = {}};

ibv_device *the_device() noexcept
{
    return &the_block.device;
}

// Devices that are open or still have objects. The list keeps them reachable for leak checkers.
std::vector<device_context *> &open_devices() REQUIRES(process::making)
{
    static constinit process::single<std::vector<device_context *>> devices;
    return devices.get();
}

bool valid_gid(std::uint32_t port, std::uint32_t index)
{
    return port == 1 && index < gid_table().size();
}

ibv_gid_entry public_entry(std::size_t index)
{
    const gid_entry &e = gid_table()[index];
    return {.gid = e.gid,
            .gid_index = static_cast<std::uint32_t>(index),
            .port_num = 1,
            .gid_type = static_cast<std::uint32_t>(type_of_gid(e)),
            .ndev_ifindex = e.interface};
}

} // namespace

static void reject_devices_of_parent() noexcept REQUIRES(process::making)
{
    for (device_context *of_parent : open_devices())
        reject_data_path(of_parent->verbs.context.ops);
    log::write(log::level::debug, "fork: objects of the parent are rejected in this child (open the device again)");
}

static void add_open_device(device_context *d) REQUIRES(process::making)
{
    static constinit process::single<const bool> watched;
    if (watched.if_created() == nullptr) {
        const auto nothing = []() noexcept {};
        process::add_fork_hooks({nothing, nothing, reject_devices_of_parent});
        watched.get([] { return &process::yes; });
    }
    open_devices().push_back(d);
}

static device_context *open_device()
{
    config::check();
    const process::creation lock;
    pmem::power_cut::configure();
    fault::configure();
    if (!trace::configure())
        return fail_with<device_context *>(nullptr, EINVAL);
    event_loop *engine = start_event_loop();
    if (engine == nullptr)
        return nullptr;
    control::start();
    // Created here: later, locks are held that follow the creation lock in the order.
    region_table::instance();
    window_table::instance();
    gid_table(); // allocates in its first call: queries of the table cannot report that memory is missing
    auto owned = std::make_unique<device_context>(*engine, arena::instance(), rc_transport::make);
    device_context *d = owned.get();
    verbs_context &v = d->verbs;
    v.sz = sizeof(v);
    v.context.device = the_device();
    v.context.cmd_fd = d->command.fd();
    v.context.async_fd = d->async.fd();
    v.context.num_comp_vectors = 1;
    v.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    pthread_mutex_init(&v.context.mutex, nullptr);
    install_data_path(v.context.ops);
    install_extended(v);
    v.priv = private_operations();
    add_open_device(d);
    return owned.release();
}

device_context *create_device()
{
    return or_no_memory<device_context *>(nullptr, open_device);
}

ibv_context *process_context()
{
    static constinit process::single<device_context> one;
    const process::creation lock;
    device_context *device = one.if_created() != nullptr ? one.if_created() : create_device();
    return device == nullptr ? nullptr : &one.get([device] { return device; }).verbs.context;
}

ibv_pd *process_pd()
{
    static constinit process::single<ibv_pd> one;
    const process::creation lock;
    ibv_context *context = process_context();
    ibv_pd *pd = one.if_created() != nullptr || context == nullptr ? one.if_created() : ibv_alloc_pd(context);
    return pd == nullptr ? nullptr : &one.get([pd] { return pd; });
}

void fill_device_attributes(ibv_device_attr &attr) noexcept
{
    attr = {};
    snprintf(attr.fw_ver, sizeof(attr.fw_ver), "%s", SOFTRDMA_VERSION);
    attr.node_guid = attr.sys_image_guid = htobe64(device_guid);
    attr.vendor_id = vendor_id;
    attr.vendor_part_id = attr.hw_ver = 1;
    attr.max_mr_size = UINT64_MAX;
    attr.page_size_cap = 0xfffff000;
    attr.max_qp = 1 << 20;
    attr.max_qp_wr = limits::max_qp_wr;
    attr.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_SYS_IMAGE_GUID |
                            IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    attr.max_sge = limits::max_sge;
    attr.max_sge_rd = limits::max_sge;
    attr.max_cq = 1 << 20;
    attr.max_cqe = limits::max_cqe;
    attr.max_mr = 1 << 24;
    attr.max_mw = 1 << 20;
    attr.max_pd = 1 << 20;
    attr.max_qp_rd_atom = limits::max_reads;
    attr.max_res_rd_atom = INT32_MAX;
    attr.max_qp_init_rd_atom = limits::max_reads;
    attr.atomic_cap = IBV_ATOMIC_HCA;
    attr.max_srq = 1 << 20;
    attr.max_srq_wr = limits::max_qp_wr;
    attr.max_srq_sge = limits::max_sge;
    attr.max_ah = limits::max_ah;
    attr.max_pkeys = 1;
    attr.phys_port_cnt = 1;
}

int query_port(ibv_context *, std::uint8_t port, ibv_port_attr *attr, std::size_t size)
{
    if (port != 1)
        return EINVAL;
    ibv_port_attr full{};
    full.state = IBV_PORT_ACTIVE;
    full.max_mtu = IBV_MTU_4096;
    full.active_mtu = roce_connect::is_selected() ? roce_connect::max_path_mtu(0) : full.max_mtu;
    full.gid_tbl_len = static_cast<int>(gid_table().size());
    full.max_msg_sz = limits::max_message;
    full.pkey_tbl_len = 1;
    full.active_width = width_4x;
    full.active_speed = speed_edr;
    full.phys_state = 5; // LinkUp
    full.lid = full.sm_lid = own_lid();
    full.link_layer = full.lid != 0 ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
    memcpy(attr, &full, std::min(size, sizeof(full))); // the structure of an older caller is shorter
    return 0;
}

} // namespace softrdma::abi

using namespace softrdma;

extern "C" {

ibv_device **ibv_get_device_list(int *count)
{
    const bool checked = or_no_memory(false, [] { return config::check(), true; });
    auto **list = checked ? static_cast<ibv_device **>(calloc(2, sizeof(ibv_device *))) : nullptr;
    if (list == nullptr)
        return nullptr;
    list[0] = abi::the_device();
    if (count != nullptr)
        *count = 1;
    return list;
}

void ibv_free_device_list(ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(ibv_device *device)
{
    return device->name;
}

int ibv_get_device_index(ibv_device *)
{
    return -1;
}

__be64 ibv_get_device_guid(ibv_device *)
{
    return htobe64(device_guid);
}

ibv_context *ibv_open_device(ibv_device *)
{
    device_context *const opened = abi::create_device();
    return opened == nullptr ? nullptr : &opened->verbs.context;
}

int ibv_close_device(ibv_context *context)
{
    device_context *d = &context_of(context);
    // Objects that remain need the context. Programs expect success, as from closing the device file.
    if (d->children.load() != 0)
        return 0;
    const process::creation lock;
    std::erase(abi::open_devices(), d);
    pthread_mutex_destroy(&context->mutex);
    delete d;
    return 0;
}

int ibv_query_device(ibv_context *, ibv_device_attr *attr)
{
    abi::fill_device_attributes(*attr);
    return 0;
}

int(ibv_query_port)(ibv_context *context, std::uint8_t port, _compat_ibv_port_attr *attr)
{
    // The symbol dates from the structure without port_cap_flags2.
    return abi::query_port(
            context, port, reinterpret_cast<ibv_port_attr *>(attr), offsetof(ibv_port_attr, port_cap_flags2));
}

// Newer than the oldest supported headers (rdma-core 62).
int ibv_query_port_speed(ibv_context *, std::uint32_t port, std::uint64_t *speed)
{
    if (port != 1)
        return EINVAL;
    *speed = abi::port_speed;
    return 0;
}

int ibv_query_gid(ibv_context *, std::uint8_t port, int index, ibv_gid *gid)
{
    if (index < 0 || !abi::valid_gid(port, static_cast<std::uint32_t>(index)))
        return abi::fail_with(-1, EINVAL);
    *gid = gid_table()[static_cast<std::size_t>(index)].gid;
    return 0;
}

int _ibv_query_gid_ex(ibv_context *, std::uint32_t port, std::uint32_t index, ibv_gid_entry *entry, std::uint32_t flags,
        std::size_t size)
{
    if (flags != 0 || !abi::valid_gid(port, index))
        return EINVAL;
    const ibv_gid_entry full = abi::public_entry(index);
    memcpy(entry, &full, std::min(size, sizeof(full)));
    return 0;
}

ssize_t _ibv_query_gid_table(
        ibv_context *, ibv_gid_entry *entries, std::size_t max_entries, std::uint32_t flags, std::size_t entry_size)
{
    const std::size_t count = gid_table().size();
    if (flags != 0 || entry_size == 0 || max_entries < count)
        return -EINVAL;
    for (std::size_t i = 0; i < count; ++i) {
        const ibv_gid_entry full = abi::public_entry(i);
        memcpy(reinterpret_cast<char *>(entries) + i * entry_size, &full, std::min(entry_size, sizeof(full)));
    }
    return static_cast<ssize_t>(count);
}

// For ibv_devinfo; no public header declares it. 1 means RoCE v2.
int ibv_query_gid_type(ibv_context *, std::uint8_t port, unsigned index, int *type)
{
    if (!abi::valid_gid(port, index))
        return abi::fail_with(-1, EINVAL);
    *type = type_of_gid(gid_table()[index]) == IBV_GID_TYPE_ROCE_V2 ? 1 : 0;
    return 0;
}

int ibv_query_pkey(ibv_context *, std::uint8_t port, int index, __be16 *pkey)
{
    if (port != 1 || index != 0)
        return abi::fail_with(-1, EINVAL);
    *pkey = htobe16(default_pkey);
    return 0;
}

int ibv_get_pkey_index(ibv_context *, std::uint8_t port, __be16 pkey)
{
    return port == 1 && pkey == htobe16(default_pkey) ? 0 : abi::fail_with(-1, EINVAL);
}

int ibv_get_async_event(ibv_context *context, ibv_async_event *event)
{
    device_context &device = context_of(context);
    return abi::usable(context) ? device.async.take(event, device.engine) : -1;
}

void ibv_ack_async_event(ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        return acknowledge_events(*event->element.cq, event->element.cq->async_events_completed, 1);
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return acknowledge_events(*event->element.srq, event->element.srq->events_completed, 1);
    case IBV_EVENT_DEVICE_FATAL:
        return;
    default:
        return acknowledge_events(*event->element.qp, event->element.qp->events_completed, 1);
    }
}

int ibv_fork_init(void)
{
    return 0;
}

ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}

} // extern "C"
