// SPDX-License-Identifier: BSD-3-Clause
/* Prints the verbs attributes of the RDMA devices that this process can open: a JSON array with one object each. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

/* Bits of device_cap_flags_ex without names in headers older than the memory placement extensions. */
static const uint64_t flush_global = UINT64_C(1) << 38;
static const uint64_t flush_persistent = UINT64_C(1) << 39;
static const uint64_t atomic_write = UINT64_C(1) << 40;

static const char *word(bool value)
{
    return value ? "true" : "false";
}

static bool is_empty(const union ibv_gid *gid)
{
    static const union ibv_gid empty;
    return memcmp(gid, &empty, sizeof(empty)) == 0;
}

static void print_gids(struct ibv_context *device, uint8_t port, int count)
{
    const char *separator = "";
    printf("\"gids\": [");
    for (int index = 0; index < count; ++index) {
        union ibv_gid gid;
        char text[INET6_ADDRSTRLEN];
        if (ibv_query_gid(device, port, index, &gid) != 0 || is_empty(&gid))
            continue;
        printf("%s\"%s\"", separator, inet_ntop(AF_INET6, gid.raw, text, sizeof(text)));
        separator = ", ";
    }
    printf("]");
}

static void print_ports(struct ibv_context *device, int count)
{
    const char *separator = "";
    printf("\"ports\": [");
    for (int number = 1; number <= count; ++number) {
        struct ibv_port_attr port;
        if (ibv_query_port(device, (uint8_t)number, &port) != 0)
            continue;
        printf("%s{\"number\": %d, \"active\": %s, \"link\": \"%s\", ", separator, number,
                word(port.state == IBV_PORT_ACTIVE),
                port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
        print_gids(device, (uint8_t)number, port.gid_tbl_len);
        printf("}");
        separator = ", ";
    }
    printf("]");
}

/* Devices without the extended query have none of these capabilities. */
static int print_capabilities(struct ibv_context *device)
{
    struct ibv_device_attr_ex capabilities = {0};
    if (ibv_query_device_ex(device, NULL, &capabilities) != 0 && ibv_query_device(device, &capabilities.orig_attr) != 0)
        return -1;

    const uint64_t flags = capabilities.device_cap_flags_ex;
    const uint32_t odp_needs = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    const bool has_odp = (capabilities.odp_caps.general_caps & IBV_ODP_SUPPORT) &&
                         (capabilities.odp_caps.per_transport_caps.rc_odp_caps & odp_needs) == odp_needs;
    printf("\"odp\": %s, \"flush_visibility\": %s, \"flush_persistent\": %s, \"atomic_write\": %s, ", word(has_odp),
            word(flags & flush_global), word(flags & flush_persistent), word(flags & atomic_write));
    print_ports(device, capabilities.orig_attr.phys_port_cnt);
    return 0;
}

static void print_device(struct ibv_device *entry)
{
    printf("{\"name\": \"%s\", ", ibv_get_device_name(entry));
    struct ibv_context *device = ibv_open_device(entry);
    if (!device)
        printf("\"error\": \"cannot be opened: %s\"", strerror(errno));
    else if (print_capabilities(device) != 0)
        printf("\"error\": \"cannot be queried: %s\"", strerror(errno));
    if (device)
        (void)ibv_close_device(device);
    printf("}");
}

int main(void)
{
    int count = 0;
    struct ibv_device **devices = ibv_get_device_list(&count);
    if (!devices && errno != ENOSYS) { /* a kernel without RDMA has no devices */
        perror("ibv_get_device_list");
        return EXIT_FAILURE;
    }

    printf("[");
    for (int i = 0; i < count; ++i) {
        printf("%s", i == 0 ? "" : ", ");
        print_device(devices[i]);
    }
    printf("]\n");

    if (devices)
        ibv_free_device_list(devices);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
