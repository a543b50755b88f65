// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libpmem2.h>

#include <fio.h>

#include "report.h"

static int allocate(struct thread_data *td, size_t size, struct memory *memory)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return -report(td, errno, "cannot allocate size=%zu bytes of memory: %s", size, strerror(errno));
    *memory = (struct memory){.base = base, .size = size, .mapping = base};
    return 0;
}

static int map(int fd, size_t size, struct pmem2_map **mapping)
{
    struct pmem2_config *config = NULL;
    struct pmem2_source *source = NULL;
    int ret = pmem2_config_new(&config);
    if (ret == 0) /* a file on a disk is accepted, and persisted page by page */
        ret = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE);
    if (ret == 0 && size != 0)
        ret = pmem2_config_set_length(config, size);
    if (ret == 0)
        ret = pmem2_source_from_fd(&source, fd);
    if (ret == 0)
        ret = pmem2_map_new(mapping, config, source);
    (void)pmem2_source_delete(&source);
    (void)pmem2_config_delete(&config);
    return ret;
}

/* Number of bytes of the device or file to map, 0 for all; extends the file as needed. */
static int prepare(struct thread_data *td, const char *name, int fd, size_t size, struct memory *memory)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return -report(td, errno, "filename=%s: %s", name, strerror(errno));
    memory->is_file = S_ISREG(status.st_mode);
    if (!memory->is_file && !S_ISCHR(status.st_mode))
        return -report(td, EINVAL, "filename=%s is neither a file nor a device DAX", name);
    const int ret = memory->is_file && (size_t)status.st_size < size ? posix_fallocate(fd, 0, (off_t)size) : 0;
    return ret ? -report(td, ret, "filename=%s cannot grow to size=%zu: %s", name, size, strerror(ret)) : 0;
}

static int use_mapping(struct thread_data *td, const char *name, size_t size, struct memory *memory)
{
    struct pmem2_map *mapping = memory->mapping;
    /* Threads share a device; each thread has its own file. */
    const size_t offset = memory->is_file ? 0 : (size_t)(td->thread_number - 1) * size;
    const size_t whole = pmem2_map_get_size(mapping);
    if (whole < size || offset > whole - size)
        return -report(td, ENOSPC, "filename=%s: %zu bytes are too small for size=%zu at offset %zu", name, whole, size,
                offset);
    if (memory->is_file && pmem2_map_get_store_granularity(mapping) == PMEM2_GRANULARITY_PAGE && td->subjob_number == 0)
        print_line(td, "filename=%s: not persistent memory: results include the page cache and msync", name);
    memory->base = (char *)pmem2_map_get_address(mapping) + offset;
    memory->size = size;
    memory->is_pmem = true;
    return 0;
}

int memory_open(struct thread_data *td, const char *name, size_t size, struct memory *memory)
{
    if (strcmp(name, "malloc") == 0)
        return allocate(td, size, memory);

    const int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0)
        return -report(td, errno, "filename=%s: %s", name, strerror(errno));
    struct pmem2_map *mapping = NULL;
    int ret = prepare(td, name, fd, size, memory);
    if (ret == 0 && map(fd, memory->is_file ? size : 0, &mapping) != 0)
        ret = -report(td, EIO, "filename=%s: cannot map: %s", name, pmem2_errormsg());
    (void)close(fd);
    if (ret)
        return ret;
    memory->mapping = mapping;
    memory->persist = pmem2_get_persist_fn(mapping);
    ret = use_mapping(td, name, size, memory);
    if (ret)
        memory_close(memory);
    return ret;
}

void memory_persist(const struct memory *memory, size_t offset, size_t size)
{
    if (memory->persist && size != 0)
        memory->persist(memory->base + offset, size);
}

void memory_close(struct memory *memory)
{
    struct pmem2_map *mapping = memory->mapping;
    if (memory->persist)
        (void)pmem2_map_delete(&mapping);
    else if (memory->mapping)
        (void)munmap(memory->mapping, memory->size);
    *memory = (struct memory){0};
}
