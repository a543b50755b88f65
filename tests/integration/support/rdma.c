// SPDX-License-Identifier: BSD-3-Clause
#include "rdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFINE_RELEASE(name, type, call)                                                                               \
    int name(void *object)                                                                                             \
    {                                                                                                                  \
        struct type *handle = object;                                                                                  \
        return call(&handle);                                                                                          \
    }
DEFINE_RELEASE(release_peer, rpma_peer, rpma_peer_delete)
DEFINE_RELEASE(release_mr, rpma_mr_local, rpma_mr_dereg)
DEFINE_RELEASE(release_remote, rpma_mr_remote, rpma_mr_remote_delete)
DEFINE_RELEASE(release_cfg, rpma_conn_cfg, rpma_conn_cfg_delete)
DEFINE_RELEASE(release_ep, rpma_ep, rpma_ep_shutdown)
DEFINE_RELEASE(release_req, rpma_conn_req, rpma_conn_req_delete)
DEFINE_RELEASE(release_conn, rpma_conn, rpma_conn_delete)
#undef DEFINE_RELEASE

struct rpma_peer *make_peer(struct side *self)
{
    struct ibv_context *context = NULL;
    CHECK_OK(rpma_utils_get_ibv_context(
            self->addr, self->link ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE, &context));
    struct rpma_peer *peer = NULL;
    CHECK_OK(rpma_peer_new(context, &peer));
    scope_add(&self->scope, release_peer, peer);
    return peer;
}

/* munmap() needs the length, too. */
struct mapping {
    void *ptr;
    size_t size;
};

static int release_mapping(void *object)
{
    struct mapping *mapping = object;
    int result = munmap(mapping->ptr, mapping->size);
    free(mapping);
    return result;
}

static struct region register_mapping(struct side *self, struct rpma_peer *peer, void *ptr, size_t size, int usage)
{
    CHECK(ptr != MAP_FAILED);
    struct mapping *mapping = malloc(sizeof(*mapping));
    CHECK(mapping != NULL);
    *mapping = (struct mapping){ptr, size};
    scope_add(&self->scope, release_mapping, mapping);
    struct region region = {.ptr = ptr, .size = size};
    CHECK_OK(rpma_mr_reg(peer, ptr, size, usage, &region.mr));
    scope_add(&self->scope, release_mr, region.mr);
    return region;
}

struct region make_region(struct side *self, struct rpma_peer *peer, size_t size, int usage)
{
    void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return register_mapping(self, peer, ptr, size, usage);
}

struct region map_region(struct side *self, struct rpma_peer *peer, const char *path, size_t size, int usage)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    struct stat info;
    CHECK_EQ(fstat(fd, &info), 0);
    int sized = S_ISREG(info.st_mode) ? ftruncate(fd, (off_t)size) : 0;
    void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    CHECK_EQ(sized, 0);
    return register_mapping(self, peer, ptr, size, usage);
}

static unsigned char pattern_byte(size_t i, unsigned seed)
{
    return seed ? (unsigned char)(seed * 31 + i * 7 + (i >> 8) + (i >> 16)) : 0;
}

void fill_pattern(void *ptr, size_t length, unsigned seed)
{
    unsigned char *bytes = ptr;
    for (size_t i = 0; i < length; ++i)
        bytes[i] = pattern_byte(i, seed);
}

void check_pattern(const void *ptr, size_t length, unsigned seed)
{
    const unsigned char *bytes = ptr;
    for (size_t i = 0; i < length; ++i) {
        if (bytes[i] != pattern_byte(i, seed))
            check_failed(__FILE__, __LINE__, "byte %zu of %zu is %#x, pattern %u has %#x", i, length, bytes[i], seed,
                    pattern_byte(i, seed));
    }
}

struct rpma_conn_cfg *make_cfg(struct side *self, struct queues queues)
{
    struct rpma_conn_cfg *cfg = NULL;
    CHECK_OK(rpma_conn_cfg_new(&cfg));
    scope_add(&self->scope, release_cfg, cfg);
    CHECK_OK(rpma_conn_cfg_set_timeout(cfg, deadline_ms() / 2));
    if (queues.cq)
        CHECK_OK(rpma_conn_cfg_set_cq_size(cfg, queues.cq));
    if (queues.sq)
        CHECK_OK(rpma_conn_cfg_set_sq_size(cfg, queues.sq));
    if (queues.rq)
        CHECK_OK(rpma_conn_cfg_set_rq_size(cfg, queues.rq));
    return cfg;
}

/* Returns a TCP socket that is bound to a free port. The caller closes it before listening at that port. */
static int bind_free_port(const struct side *self, char port[8])
{
    if (!self->link && network_of_servers())
        skip_because("the address is that of servers on another machine, and here the client listens");
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *info = NULL;
    CHECK_EQ(getaddrinfo(self->addr, "0", &hints, &info), 0);
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage bound;
    socklen_t length = sizeof(bound);
    bool known = fd >= 0 && bind(fd, info->ai_addr, info->ai_addrlen) == 0 &&
                 getsockname(fd, (struct sockaddr *)&bound, &length) == 0;
    freeaddrinfo(info);
    if (fd >= 0 && !known)
        close(fd);
    CHECK(known);
    in_port_t number = bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                   : ((struct sockaddr_in *)&bound)->sin_port;
    snprintf(port, 8, "%u", ntohs(number));
    return fd;
}

struct rpma_ep *make_ep(struct side *self, struct rpma_peer *peer, char port[8])
{
    struct rpma_ep *ep = NULL;
    int result;
    int attempts = 20;
    char unused[8];
    port = port != NULL ? port : unused;
    do {
        close(bind_free_port(self, port));
        result = rpma_ep_listen(peer, self->addr, port, &ep);
    } while (result == RPMA_E_PROVIDER && errno == EADDRINUSE && --attempts);
    CHECK_OK(result);
    scope_add(&self->scope, release_ep, ep);
    if (self->link)
        send_line(self->link, "port %s", port);
    return ep;
}

struct greeting make_greeting(const struct region *regions, size_t count, bool direct_write_to_pmem)
{
    struct greeting greeting = {.count = (uint8_t)count};
    struct rpma_peer_cfg *cfg = NULL;
    CHECK_OK(rpma_peer_cfg_new(&cfg));
    CHECK_OK(rpma_peer_cfg_set_direct_write_to_pmem(cfg, direct_write_to_pmem));
    CHECK_OK(rpma_peer_cfg_get_descriptor(cfg, &greeting.peer_cfg));
    CHECK_OK(rpma_peer_cfg_delete(&cfg));
    for (size_t i = 0; i < count; ++i) {
        size_t size = 0;
        CHECK_OK(rpma_mr_get_descriptor_size(regions[i].mr, &size));
        CHECK_EQ(size, DESCRIPTOR_SIZE);
        CHECK_OK(rpma_mr_get_descriptor(regions[i].mr, greeting.descriptors[i]));
    }
    return greeting;
}

const struct greeting *received_greeting(const struct rpma_conn *conn)
{
    struct rpma_conn_private_data pdata;
    CHECK_OK(rpma_conn_get_private_data(conn, &pdata));
    CHECK(pdata.len >= sizeof(struct greeting));
    return pdata.ptr;
}

struct rpma_mr_remote *make_remote(struct side *self, const uint8_t descriptor[DESCRIPTOR_SIZE])
{
    struct rpma_mr_remote *remote = NULL;
    CHECK_OK(rpma_mr_remote_from_descriptor(descriptor, DESCRIPTOR_SIZE, &remote));
    scope_add(&self->scope, release_remote, remote);
    return remote;
}

struct rpma_mr_remote *remote_region(struct side *self, const struct rpma_conn *conn, size_t index)
{
    const struct greeting *greeting = received_greeting(conn);
    CHECK(index < greeting->count);
    return make_remote(self, greeting->descriptors[index]);
}
