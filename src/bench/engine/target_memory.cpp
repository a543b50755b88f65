// SPDX-License-Identifier: BSD-3-Clause
#include "target_memory.hpp"

#include <fcntl.h>
#include <libpmem2.h>
#include <memory>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "failure.hpp"

namespace bench
{

namespace
{

constexpr std::size_t huge_page = 2 << 20;
constexpr long tmpfs_magic = 0x01021994;

class open_file
{
public:
    explicit open_file(int fd) : fd_(fd) {}
    ~open_file()
    {
        if (fd_ >= 0)
            close(fd_);
    }
    open_file(const open_file &) = delete;
    open_file &operator=(const open_file &) = delete;
    int fd() const { return fd_; }

private:
    int fd_;
};

struct stat stat_of(const std::string &path)
{
    struct stat s {
    };
    if (stat(path.c_str(), &s) != 0)
        throw system_failure("cannot use the target " + path);
    if (!S_ISDIR(s.st_mode) && !S_ISCHR(s.st_mode))
        throw failure(
                "target " + path + " is neither a directory nor a PMem device (for a file, specify its directory)",
                exit_usage);
    return s;
}

int open_target(const std::string &path, std::size_t size)
{
    if (S_ISCHR(stat_of(path).st_mode))
        return open(path.c_str(), O_RDWR | O_CLOEXEC);
    const int fd = open(path.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return fd;
    if (const int error = posix_fallocate(fd, 0, static_cast<off_t>(size)); error != 0) {
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

// Maps the file or device. An ordinary file requires PMEM2_GRANULARITY_PAGE.
pmem2_map *map_target(const std::string &path, std::size_t size)
{
    const open_file file(open_target(path, size));
    if (file.fd() < 0)
        throw system_failure("cannot use the target " + path);

    pmem2_config *config = nullptr;
    pmem2_source *source = nullptr;
    pmem2_map *map = nullptr;
    int failed = pmem2_config_new(&config);
    if (failed == 0)
        failed = pmem2_source_from_fd(&source, file.fd());
    if (failed == 0)
        failed = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE);
    if (failed == 0)
        failed = pmem2_map_new(&map, config, source);
    const std::string reason = failed == 0 ? "" : pmem2_errormsg();
    pmem2_source_delete(&source);
    pmem2_config_delete(&config);
    if (failed != 0)
        throw failure("cannot map the target " + path + ": " + reason);
    if (pmem2_map_get_size(map) < size) {
        pmem2_map_delete(&map);
        throw failure("the target " + path + " is too small: " + std::to_string(size) + " bytes are needed");
    }
    return map;
}

std::size_t whole_pages(std::size_t size)
{
    return (size + huge_page - 1) / huge_page * huge_page;
}

} // namespace

target_memory::target_memory(std::size_t size) : size_(whole_pages(size == 0 ? 1 : size))
{
    void *const mapped =
            mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (mapped == MAP_FAILED)
        throw system_failure("cannot get " + std::to_string(size_) + " bytes of memory");
    data_ = static_cast<std::byte *>(mapped);
}

target_memory::target_memory(std::size_t size, const std::string &path) : size_(whole_pages(size == 0 ? 1 : size))
{
    map_ = map_target(path, size_);
    data_ = static_cast<std::byte *>(pmem2_map_get_address(map_));
    persist_ = pmem2_get_persist_fn(map_);
}

target_memory::~target_memory()
{
    if (map_ != nullptr)
        pmem2_map_delete(&map_);
    else
        munmap(data_, size_);
}

target_kind describe_target(const std::string &path, bool on_softrdma, bool direct_write)
{
    if (path.empty())
        return {"dram", "anonymous memory (DRAM)", "none: DRAM loses its content with the process"};

    pmem2_map *map = map_target(path, huge_page);
    const bool is_pmem = pmem2_map_get_store_granularity(map) != PMEM2_GRANULARITY_PAGE;
    pmem2_map_delete(&map);
    struct statfs fs {
    };
    const bool volatile_file = statfs(path.c_str(), &fs) == 0 && fs.f_type == tmpfs_magic;

    target_kind kind{is_pmem ? "pmem" : "file", (is_pmem ? "persistent memory at " : "a file in ") + path, ""};
    if (volatile_file)
        kind.persistence = "survives the process, not the machine (tmpfs)";
    else if (on_softrdma)
        kind.persistence = is_pmem ? "survives a power failure (cache lines are written back by softrdma)"
                                   : "survives a power failure if the disk keeps acknowledged data (msync by softrdma)";
    else if (direct_write)
        kind.persistence = "survives a power failure if the platform writes directly to PMem, as the server declares";
    else
        kind.persistence = "none by rpma_flush: no direct write to PMem; gpspm persists on the server's CPU";
    return kind;
}

} // namespace bench
