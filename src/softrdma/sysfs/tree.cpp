// SPDX-License-Identifier: BSD-3-Clause
#include "sysfs/tree.hpp"
#include "abi/device.hpp"
#include "base/gid_table.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/unique_fd.hpp"
#include "transport/shm/identity.hpp"

#include <array>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <net/if.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace softrdma::sysfs
{

namespace
{

namespace fs = std::filesystem;

constexpr std::string_view name_prefix = "softrdma-sysfs.";
constexpr const char *counters[] = {"VL15_dropped", "excessive_buffer_overrun_errors", "link_downed",
        "link_error_recovery", "local_link_integrity_errors", "multicast_rcv_packets", "multicast_xmit_packets",
        "port_rcv_constraint_errors", "port_rcv_data", "port_rcv_errors", "port_rcv_packets",
        "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_constraint_errors",
        "port_xmit_data", "port_xmit_discards", "port_xmit_packets", "port_xmit_wait", "symbol_error",
        "unicast_rcv_packets", "unicast_xmit_packets"};
constexpr const char *hw_counters[] = {"duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err",
        "np_cnp_sent", "np_ecn_marked_roce_packets", "out_of_buffer", "out_of_sequence", "packet_seq_err",
        "req_cqe_error", "req_cqe_flush_error", "req_remote_access_errors", "req_remote_invalid_request",
        "resp_cqe_error", "resp_cqe_flush_error", "resp_local_length_error", "resp_remote_access_errors",
        "rnr_nak_retry_err", "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart", "roce_slow_restart_cnps",
        "roce_slow_restart_trans", "rp_cnp_handled", "rp_cnp_ignored", "rx_atomic_requests", "rx_icrc_encapsulated",
        "rx_read_requests", "rx_write_requests"};

[[gnu::format(printf, 1, 2)]] std::string format(const char *pattern, ...)
{
    std::array<char, 128> text{};
    va_list values;
    va_start(values, pattern);
    vsnprintf(text.data(), text.size(), pattern, values);
    va_end(values);
    return text.data();
}

std::string hex_groups(const std::uint8_t *bytes, std::size_t count)
{
    std::string text;
    for (std::size_t i = 0; i < count; i += 2)
        text += format(i == 0 ? "%02x%02x" : ":%02x%02x", bytes[i], bytes[i + 1]);
    return text;
}

std::string hex_groups(__be64 guid)
{
    std::array<std::uint8_t, sizeof(guid)> bytes{};
    memcpy(bytes.data(), &guid, bytes.size());
    return hex_groups(bytes.data(), bytes.size());
}

std::string interface_name(unsigned index)
{
    std::array<char, IF_NAMESIZE> name{};
    return if_indextoname(index, name.data()) == nullptr ? "" : name.data();
}

std::string processor_mask(long count)
{
    std::string text;
    for (long word = (count - 1) / 32; word >= 0; --word) {
        const long bits = std::min(count - word * 32, 32L);
        text += format(text.empty() ? "%08x" : ",%08x", static_cast<unsigned>((std::uint64_t{1} << bits) - 1));
    }
    return text;
}

// Equal files are one file with several names, because each file takes a page of memory.
class writer
{
public:
    explicit writer(fs::path root) : root_(std::move(root)) {}

    void file(const std::string &name, const std::string &text)
    {
        const fs::path path = path_of(name);
        std::error_code no_link = std::make_error_code(std::errc::no_link);
        const auto [first, is_first] = written_.try_emplace(text, path);
        if (!is_first)
            fs::create_hard_link(first->second, path, no_link);
        if (!no_link)
            return;
        std::ofstream out(path);
        if (!(out << text << '\n' << std::flush))
            throw fs::filesystem_error("write", path, std::error_code(errno, std::generic_category()));
        fs::permissions(path, fs::perms(0444));
    }
    void directory(const std::string &name) { fs::create_directories(root_ / name); }
    void link(const std::string &name, const std::string &target) { fs::create_symlink(target, path_of(name)); }

private:
    fs::path path_of(const std::string &name)
    {
        fs::path path = root_ / name;
        fs::create_directories(path.parent_path());
        return path;
    }

    fs::path root_;
    std::map<std::string, fs::path> written_;
};

void write_port(writer &out, const std::string &port, std::uint8_t number)
{
    ibv_port_attr attr{};
    abi::query_port(nullptr, number, &attr, sizeof(attr));
    const bool is_ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    out.file(port + "state", format("%d: ACTIVE", attr.state));
    out.file(port + "phys_state", format("%d: LinkUp", attr.phys_state));
    out.file(port + "rate", abi::link_rate);
    out.file(port + "lid", format("0x%x", attr.lid));
    out.file(port + "lid_mask_count", format("%d", attr.lmc));
    out.file(port + "sm_lid", format("0x%x", attr.sm_lid));
    out.file(port + "sm_sl", format("%d", attr.sm_sl));
    out.file(port + "cap_mask", format("0x%08x", attr.port_cap_flags));
    out.file(port + "link_layer", is_ethernet ? "Ethernet" : "InfiniBand");
    for (int i = 0; i < attr.pkey_tbl_len; ++i)
        out.file(port + "pkeys/" + std::to_string(i), "0xffff");
    for (const char *name : {"gids", "gid_attrs/types", "gid_attrs/ndevs"})
        out.directory(port + name);
    for (int i = 0; i < attr.gid_tbl_len; ++i) {
        const gid_entry &entry = gid_table()[static_cast<std::size_t>(i)];
        const std::string index = std::to_string(i);
        out.file(port + "gids/" + index, hex_groups(entry.gid.raw, sizeof(entry.gid.raw)));
        out.file(port + "gid_attrs/types/" + index,
                type_of_gid(entry) == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
        if (const std::string name = interface_name(entry.interface); !name.empty())
            out.file(port + "gid_attrs/ndevs/" + index, name);
    }
    for (const char *name : counters)
        out.file(port + "counters/" + name, "0");
    for (const char *name : hw_counters)
        out.file(port + "hw_counters/" + name, "0");
    out.file(port + "hw_counters/lifespan", "10");
}

// Writes the device, with its network interfaces and class devices below it, as the kernel arranges them.
void write_tree(writer &out)
{
    ibv_device_attr attr{};
    abi::fill_device_attributes(attr);
    const std::string device = "devices/platform/softrdma0/";
    const long processors = sysconf(_SC_NPROCESSORS_CONF);
    out.file(device + "vendor", format("0x%04x", attr.vendor_id));
    out.file(device + "device", format("0x%04x", attr.vendor_part_id));
    out.file(device + "subsystem_vendor", format("0x%04x", attr.vendor_id));
    out.file(device + "subsystem_device", format("0x%04x", attr.vendor_part_id));
    out.file(device + "revision", format("0x%02x", attr.hw_ver));
    out.file(device + "resource", "0x0000000000000000 0x0000000000000000 0x0000000000000000");
    out.file(device + "numa_node", "-1");
    out.file(device + "local_cpus", processor_mask(processors));
    out.file(device + "local_cpulist", processors > 1 ? format("0-%ld", processors - 1) : "0");
    out.file(device + "modalias", "platform:softrdma");
    out.file(device + "uevent", "DRIVER=softrdma\nMODALIAS=platform:softrdma");
    out.link(device + "subsystem", "../../../bus/platform");
    out.directory(device + "net");
    std::set<std::string> interfaces;
    for (const gid_entry &entry : gid_table())
        interfaces.insert(interface_name(entry.interface));
    interfaces.erase(""); // removed since the table was read
    for (const std::string &name : interfaces)
        out.link(device + "net/" + name, "/sys/class/net/" + name);

    const std::string verbs = device + "infiniband/softrdma0/";
    out.file(verbs + "node_type", "1: CA");
    out.file(verbs + "node_guid", hex_groups(attr.node_guid));
    out.file(verbs + "sys_image_guid", hex_groups(attr.sys_image_guid));
    out.file(verbs + "node_desc", "softrdma0");
    out.file(verbs + "fw_ver", attr.fw_ver);
    out.file(verbs + "hw_rev", format("0x%x", attr.hw_ver));
    out.file(verbs + "hca_type", "softrdma");
    out.file(verbs + "board_id", "softrdma");
    out.file(verbs + "uevent", "NAME=softrdma0");
    out.link(verbs + "device", "../../../softrdma0");
    out.link(verbs + "subsystem", "../../../../../class/infiniband");
    for (std::uint8_t port = 1; port <= attr.phys_port_cnt; ++port)
        write_port(out, verbs + "ports/" + std::to_string(port) + "/", port);

    const std::string file = device + "infiniband_verbs/uverbs-softrdma0/";
    out.file(file + "ibdev", "softrdma0");
    out.file(file + "abi_version", "1");
    out.file(file + "dev", "231:192");
    out.file(file + "uevent", "MAJOR=231\nMINOR=192\nDEVNAME=infiniband/uverbs-softrdma0");
    out.link(file + "device", "../../../softrdma0");
    out.link(file + "subsystem", "../../../../../class/infiniband_verbs");

    out.link("class/infiniband/softrdma0", "../../" + device + "infiniband/softrdma0");
    out.link("class/infiniband_verbs/uverbs-softrdma0", "../../" + device + "infiniband_verbs/uverbs-softrdma0");
    out.file("class/infiniband_verbs/abi_version", "6");
    out.file("class/infiniband_mad/abi_version", "5");
    out.file("class/misc/rdma_cm/abi_version", "4");
    out.file("class/misc/rdma_cm/dev", "10:122");
    out.link("bus", "/sys/bus");
    out.link("dev/infiniband/uverbs-softrdma0", "/dev/null");
    out.link("dev/infiniband/rdma_cm", "/dev/null");
}

void link_system_entries(const fs::path &root, const fs::path &directory)
{
    const fs::path copy = root / directory.lexically_relative("/sys");
    // By path, this would open the private directory.
    const unique_fd fd(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    std::error_code error;
    for (const auto &entry : fs::directory_iterator("/proc/self/fd/" + std::to_string(fd.get()), error)) {
        const fs::path name = entry.path().filename();
        fs::create_symlink(directory / name, copy / name, error); // not if the device has this name
    }
}

// Number of the PID namespace of this process. Process IDs in directory names are valid only in their namespace.
std::string pid_namespace()
{
    struct stat status = {};
    return stat("/proc/self/ns/pid", &status) == 0 ? std::to_string(status.st_ino) : "0";
}

// `owner`: process ID and start time, the end of the name of a directory.
bool is_orphan(std::string_view owner)
{
    pid_t pid = 0;
    std::uint64_t start = 0;
    const char *const end = owner.data() + owner.size();
    const auto number = std::from_chars(owner.data(), end, pid);
    if (number.ec != std::errc{} || number.ptr == end || *number.ptr != '.')
        return false;
    return std::from_chars(number.ptr + 1, end, start).ec == std::errc{} && start_time_of(pid) != start;
}

void remove_orphans(const fs::path &base, const std::string &start)
{
    std::error_code error;
    for (const auto &entry : fs::directory_iterator(base, error)) {
        const std::string name = entry.path().filename();
        struct stat status = {};
        if (name.starts_with(start) && is_orphan(std::string_view(name).substr(start.size())) &&
                lstat(entry.path().c_str(), &status) == 0 && status.st_uid == geteuid())
            fs::remove_all(entry.path(), error);
    }
}

// Returns an empty string if the directory cannot have the tree.
std::string create_below(const char *base)
{
    const std::string start = std::string(name_prefix) + std::to_string(geteuid()) + "." + pid_namespace() + ".";
    remove_orphans(base, start);
    std::string path = std::string(base) + "/" + start + std::to_string(getpid()) + "." +
                       std::to_string(start_time_of(getpid())) + ".XXXXXX";
    if (mkdtemp(path.data()) == nullptr)
        return {};
    try {
        fs::permissions(path, fs::perms(0755)); // the process can change its user
        writer out(path);
        write_tree(out);
        for (const std::string_view directory : listed_directories)
            link_system_entries(path, directory);
        return path;
    } catch (const fs::filesystem_error &error) {
        log::write(log::level::warn, "sysfs: cannot create '%s': %s", path.c_str(), error.what());
        std::error_code ignored;
        fs::remove_all(path, ignored);
        return {};
    }
}

std::string create()
{
    for (const char *base : {"/dev/shm", static_cast<const char *>(getenv("XDG_RUNTIME_DIR")), "/tmp"}) {
        std::string path = base == nullptr ? "" : create_below(base);
        if (!path.empty())
            return path;
    }
    log::write(log::level::error, "sysfs: no files of the device: neither /dev/shm nor /tmp is writable");
    return {};
}

constinit process::single<const std::string> the_tree;
constinit pid_t owner = 0; // a child of vfork() or clone() has the tree of its parent

[[gnu::destructor]] void remove_tree()
{
    const std::string *path = the_tree.if_created();
    std::error_code ignored;
    if (path != nullptr && !path->empty() && owner == getpid())
        fs::remove_all(*path, ignored);
}

} // namespace

const std::string &tree()
{
    return the_tree.get([] {
        owner = getpid();
        return new std::string(create());
    });
}

const std::string *existing_tree() noexcept
{
    return the_tree.if_created();
}

} // namespace softrdma::sysfs
