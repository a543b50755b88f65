// SPDX-License-Identifier: BSD-3-Clause
#include "replica.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <librpmem.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.hpp"

namespace bench::replica
{

namespace fs = std::filesystem;

// Temporary directory with the pool set file, its part and the log of the daemon.
class pool::files
{
public:
    files(std::size_t size, const std::string &directory) : size_(std::max(size, RPMEM_MIN_PART))
    {
        directory_ = (directory.empty() ? "/dev/shm" : directory) + "/rpma-bench-XXXXXX";
        if (mkdtemp(directory_.data()) == nullptr)
            throw system_failure("cannot create the replica directory " + directory_ + " (see --target)");
        try {
            std::ofstream(set()) << "PMEMPOOLSET\nOPTION NOHDRS\n" << size_ << "B " << part() << '\n';
            chmod(set().c_str(), 0600);
        } catch (...) {
            fs::remove_all(directory_);
            throw;
        }
    }
    ~files()
    {
        if (mapped_ != nullptr)
            munmap(mapped_, size_);
        std::error_code ignored;
        fs::remove_all(directory_, ignored);
    }
    files(const files &) = delete;
    files &operator=(const files &) = delete;

    const std::string &directory() const { return directory_; }
    void map()
    {
        const int fd = open(part().c_str(), O_RDWR | O_CLOEXEC);
        void *const memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0)
            close(fd);
        if (memory == MAP_FAILED)
            throw system_failure("cannot map the replica " + part());
        mapped_ = memory;
    }
    std::byte *memory() const { return static_cast<std::byte *>(mapped_); }

private:
    std::string set() const { return directory_ + "/bench.set"; }
    std::string part() const { return directory_ + "/bench.part"; }

    std::string directory_;
    std::size_t size_;
    void *mapped_ = nullptr;
};

// Sets RPMEM_CMD, which librpmem passes to a shell when it is loaded. PATH starts with this installation's rpmemd.
void choose_daemon(const std::string &directory)
{
    setenv("RPMA_BENCH_REPLICA", directory.c_str(), 1);
    setenv("RPMEM_CMD", R"(exec rpmemd --poolset-dir "$RPMA_BENCH_REPLICA" --log-file "$RPMA_BENCH_REPLICA/log")", 1);
}

class pool::library
{
public:
    library() : handle_(dlopen("librpmem.so.1", RTLD_NOW | RTLD_LOCAL))
    {
        if (handle_ == nullptr)
            throw failure(std::string("cannot load librpmem.so.1: ") + dlerror() +
                          " (install the packages librpmem1 and rpmemd)");
        find(create, "rpmem_create");
        find(close, "rpmem_close");
        find(persist, "rpmem_persist");
        find(flush, "rpmem_flush");
        find(drain, "rpmem_drain");
        find(errormsg, "rpmem_errormsg");
    }
    ~library() { dlclose(handle_); }
    library(const library &) = delete;
    library &operator=(const library &) = delete;

    void check(int result, const char *call) const
    {
        if (result != 0) [[unlikely]]
            throw failure(std::string(call) + ": " + errormsg());
    }

    decltype(&rpmem_create) create;
    decltype(&rpmem_close) close;
    decltype(&rpmem_persist) persist;
    decltype(&rpmem_flush) flush;
    decltype(&rpmem_drain) drain;
    decltype(&rpmem_errormsg) errormsg;

private:
    template<class Function>
    void find(Function &to, const char *name) const
    {
        to = reinterpret_cast<Function>(dlsym(handle_, name));
        if (to == nullptr)
            throw failure(std::string("librpmem.so.1: symbol not found: ") + name);
    }

    void *handle_;
};

pool::pool(std::span<std::byte> memory, unsigned lanes, const std::string &directory)
    : files_(std::make_unique<files>(memory.size(), directory))
{
    choose_daemon(files_->directory());
    library_ = std::make_unique<library>();
    unsigned got = lanes;
    RPMEMpool *const created = library_->create("local:", "bench.set", memory.data(), memory.size(), &got, nullptr);
    if (created == nullptr)
        throw failure(std::string("cannot create the replica: ") + library_->errormsg());
    handle_ = created;
    try {
        if (got < lanes)
            throw failure("librpmem provides " + std::to_string(got) + " of " + std::to_string(lanes) +
                          " lanes (increase RPMEM_MAX_NLANES and ulimit -n)");
        files_->map();
    } catch (...) {
        library_->close(created);
        throw;
    }
}

pool::~pool()
{
    library_->close(static_cast<RPMEMpool *>(handle_));
}

void pool::persist(std::size_t offset, std::size_t len, unsigned lane)
{
    library_->check(library_->persist(static_cast<RPMEMpool *>(handle_), offset, len, lane, 0), "rpmem_persist()");
}

void pool::flush(std::size_t offset, std::size_t len, unsigned lane)
{
    library_->check(library_->flush(static_cast<RPMEMpool *>(handle_), offset, len, lane, 0), "rpmem_flush()");
}

void pool::drain(unsigned lane)
{
    library_->check(library_->drain(static_cast<RPMEMpool *>(handle_), lane, 0), "rpmem_drain()");
}

std::byte *pool::part() const
{
    return files_->memory();
}

} // namespace bench::replica
