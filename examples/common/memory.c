// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "status.h"

static const char signature[] = "RPMA_EXAMPLE_SIG";

int memory_allocate(struct memory *memory, size_t size)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        warn("cannot allocate %zu bytes", size);
        return STATUS_FAILED;
    }
    *memory = (struct memory){.base = base, .size = size, .is_new = true};
    return STATUS_OK;
}

static int open_file(const char *path)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        return fd;

    if (errno == ENOENT)
        warnx("%s: not found (create it, for example with `truncate -s 64K %s`)", path, path);
    else
        warn("%s: cannot open for reading and writing", path);
    return -1;
}

/* On a full disk, a store to a hole of a file would raise SIGBUS. */
static int reserve_space(const char *path, int fd, off_t size)
{
    const int error = posix_fallocate(fd, 0, size);
    if (error == ENOSPC || error == EDQUOT) {
        warnx("%s: no space left for %jd bytes (free some or choose another file)", path, (intmax_t)size);
        return STATUS_FAILED;
    }
    return STATUS_OK; /* the file system does not support reservation */
}

/* Rejects other kinds of files with a clearer error than that of libpmem2. */
static int check_kind(const char *path, int fd)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        warn("%s", path);
        return STATUS_FAILED;
    }
    if (!S_ISREG(info.st_mode) && !S_ISCHR(info.st_mode)) {
        warnx("%s: neither a file nor a PMem device", path);
        return STATUS_FAILED;
    }
    if (S_ISREG(info.st_mode) && info.st_size == 0) {
        warnx("%s: the file is empty (set its size, for example with `truncate -s 64K %s`)", path, path);
        return STATUS_FAILED;
    }
    return S_ISREG(info.st_mode) ? reserve_space(path, fd, info.st_size) : STATUS_OK;
}

static int map(struct memory *memory, const char *path)
{
    const int fd = open_file(path);
    if (fd < 0)
        return STATUS_FAILED;

    int status = check_kind(path, fd);
    if (status == STATUS_OK)
        status = memory_map_file(memory, path, fd);
    (void)close(fd); /* the mapping does not need it */
    return status;
}

int memory_open_unsigned(struct memory *memory, const char *path, size_t offset, size_t data_size)
{
    if (!path) {
        warnx("no <pmem-path> given: using DRAM, nothing here will be persistent");
        return memory_allocate(memory, data_size);
    }

    const int status = map(memory, path);
    if (status != STATUS_OK)
        return status;

    if (memory->size < data_size || offset > memory->size - data_size) {
        warnx("%s: %zu bytes are too small for %zu at offset %zu (enlarge it or use a smaller offset)", path,
                memory->size, data_size, offset);
        memory_close(memory);
        return STATUS_FAILED;
    }
    if (!memory->is_persistent)
        warnx("WARNING: %s is an ordinary file, NOT persistent memory: data is durable only once msync(2) has run",
                path);

    memory->data_offset = offset;
    return STATUS_OK;
}

int memory_open(struct memory *memory, const char *path, size_t offset, size_t data_size)
{
    const size_t signature_size = path ? sizeof(signature) : 0;
    const int status = memory_open_unsigned(memory, path, offset, signature_size + data_size);
    if (status == STATUS_OK && path) {
        memory->data_offset += sizeof(signature);
        memory->is_new = memcmp(memory->base + offset, signature, sizeof(signature)) != 0;
    }
    return status;
}

void memory_sign(struct memory *memory, size_t size)
{
    memory_persist(memory, size);
    if (memory->map) {
        const size_t offset = memory->data_offset - sizeof(signature);
        memcpy(memory->base + offset, signature, sizeof(signature));
        memory_persist_range(memory, offset, sizeof(signature));
    }
    memory->is_new = false;
}

void memory_persist_range(const struct memory *memory, size_t offset, size_t size)
{
    if (memory->map)
        memory->persist(memory->base + offset, size);
}

void memory_persist(const struct memory *memory, size_t size)
{
    memory_persist_range(memory, memory->data_offset, size);
}

void memory_close(struct memory *memory)
{
    if (memory->map)
        memory_unmap_file(memory);
    else if (memory->base)
        (void)munmap(memory->base, memory->size);
    *memory = (struct memory){0};
}
