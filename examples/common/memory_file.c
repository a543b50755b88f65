// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"

#include <err.h>

#include <libpmem2.h>

#include "status.h"

static int new_map(struct pmem2_map **map, int fd)
{
    struct pmem2_config *config = NULL;
    struct pmem2_source *source = NULL;

    int ret = pmem2_config_new(&config);
    if (ret == 0) /* accepts any memory that can be made durable, also with msync */
        ret = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE);
    if (ret == 0)
        ret = pmem2_source_from_fd(&source, fd);
    if (ret == 0)
        ret = pmem2_map_new(map, config, source);

    (void)pmem2_source_delete(&source);
    (void)pmem2_config_delete(&config);
    return ret;
}

int memory_map_file(struct memory *memory, const char *path, int fd)
{
    struct pmem2_map *map = NULL;
    if (new_map(&map, fd) != 0) {
        warnx("%s: cannot map: %s", path, pmem2_errormsg());
        return STATUS_FAILED;
    }

    *memory = (struct memory){
            .base = pmem2_map_get_address(map),
            .size = pmem2_map_get_size(map),
            .is_persistent = pmem2_map_get_store_granularity(map) != PMEM2_GRANULARITY_PAGE,
            .map = map,
            .persist = pmem2_get_persist_fn(map),
    };
    return STATUS_OK;
}

void memory_unmap_file(struct memory *memory)
{
    (void)pmem2_map_delete(&memory->map);
}
