/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the GID that each machine-learning program selects for its queue pairs, one line per program. The rules are
 * those of the sources of Mooncake 0.3, NCCL 2.30 and UCX 1.20. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    max_gids = 256
};
static struct ibv_gid_entry gids[max_gids];
static int count;

static struct in6_addr address_of(int index)
{
    struct in6_addr address;
    memcpy(&address, gids[index].gid.raw, sizeof(address));
    return address;
}

static bool is_v4(int index)
{
    const struct in6_addr address = address_of(index);
    return IN6_IS_ADDR_V4MAPPED(&address);
}

static bool is_link_local(int index)
{
    const struct in6_addr address = address_of(index);
    return IN6_IS_ADDR_LINKLOCAL(&address);
}

/* Returns the first entry of the type and address family, or -1. */
static int first_of(enum ibv_gid_type type, bool v4)
{
    for (int i = 0; i < count; ++i) {
        if (gids[i].gid_type == type && is_v4(i) == v4)
            return i;
    }
    return -1;
}

/* Mooncake takes the first IPv4 entry of RoCE v2, otherwise the first of all. */
static int choice_of_mooncake(void)
{
    const int found = first_of(IBV_GID_TYPE_ROCE_V2, true);
    return found < 0 ? 0 : found;
}

/* UCX prefers RoCE v2 to v1, and then IPv4 to IPv6. */
static int choice_of_ucx(void)
{
    static const enum ibv_gid_type types[] = {IBV_GID_TYPE_ROCE_V2, IBV_GID_TYPE_ROCE_V1};
    for (int i = 0; i < 4; ++i) {
        const int found = first_of(types[i / 2], i % 2 == 0);
        if (found >= 0)
            return found;
    }
    return -1;
}

/* NCCL reads the version in sysfs. */
static int version_in_sysfs(int index)
{
    char path[96], line[32] = "";
    snprintf(path, sizeof(path), "/sys/class/infiniband/softrdma0/ports/1/gid_attrs/types/%d", index);
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(line, sizeof(line), file) == NULL)
        return -1;
    fclose(file);
    return strcmp(line, "RoCE v2\n") == 0 ? 2 : strcmp(line, "IB/RoCE v1\n") == 0 ? 1 : -1;
}

/* NCCL starts with entry 0. An entry replaces the current one if only it has the requested family, or if it has the
 * family and, unlike the current one, RoCE v2. */
static int choice_of_nccl(bool v4)
{
    int current = 0;
    for (int i = 1; i < count; ++i) {
        if (is_v4(i) != v4)
            continue;
        if (is_v4(current) != v4 || (!is_link_local(i) && version_in_sysfs(i) == 2 && version_in_sysfs(current) == 1))
            current = i;
    }
    return current;
}

static void print_choice(const char *program, int index)
{
    char text[INET6_ADDRSTRLEN] = "none";
    if (index >= 0)
        inet_ntop(AF_INET6, gids[index].gid.raw, text, sizeof(text));
    printf("%s %s\n", program, text);
}

int main(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *context = devices == NULL || devices[0] == NULL ? NULL : ibv_open_device(devices[0]);
    if (context == NULL || (count = (int)ibv_query_gid_table(context, gids, max_gids, 0)) <= 0)
        return 1;
    print_choice("mooncake", choice_of_mooncake());
    print_choice("ucx", choice_of_ucx());
    print_choice("nccl", choice_of_nccl(true));
    print_choice("nccl6", choice_of_nccl(false));
    ibv_close_device(context);
    ibv_free_device_list(devices);
    return 0;
}
