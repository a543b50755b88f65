// SPDX-License-Identifier: BSD-3-Clause
#include "subject.h"

#include <errno.h>
#include <fcntl.h>
#include <librpma.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Defined in ib_user_verbs.h since Linux 6.3; the installed header may be older. */
#define FLUSH_CAPABILITIES (UINT64_C(3) << 38)
#define ATOMIC_WRITE_CAPABILITY (UINT64_C(1) << 40)

static int note_library(struct dl_phdr_info *info, size_t size, void *argument)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *base = slash ? slash + 1 : info->dlpi_name;
    if (strncmp(base, "librpma.so", strlen("librpma.so")))
        return 0;
    struct subject *subject = argument;
    if (!realpath(info->dlpi_name, subject->library))
        snprintf(subject->library, sizeof(subject->library), "%s", info->dlpi_name);
    return 1;
}

static const char *transport_name(enum ibv_transport_type type)
{
    return type == IBV_TRANSPORT_IB      ? "InfiniBand or RoCE"
           : type == IBV_TRANSPORT_IWARP ? "iWARP"
                                         : "another transport";
}

static bool describe_device(const char *addr, char *text, size_t size)
{
    struct ibv_context *context = NULL;
    int result = rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context);
    if (result) {
        snprintf(text, size, "no RDMA device serves %s (%s%s%s)", addr, rpma_err_2str(result),
                result == RPMA_E_PROVIDER ? ": " : "", result == RPMA_E_PROVIDER ? strerror(errno) : "");
        return false;
    }
    struct ibv_device_attr_ex attributes = {0};
    if (ibv_query_device_ex(context, NULL, &attributes)) {
        snprintf(text, size, "the device of %s cannot be queried: %s", addr, strerror(errno));
        return false;
    }
    uint64_t capabilities = attributes.device_cap_flags_ex;
    snprintf(text, size, "%s at %s: %s, native flush %s, native atomic write %s, On-Demand Paging %s",
            ibv_get_device_name(context->device), addr, transport_name(context->device->transport_type),
            (capabilities & FLUSH_CAPABILITIES) == FLUSH_CAPABILITIES ? "yes" : "no",
            capabilities & ATOMIC_WRITE_CAPABILITY ? "yes" : "no",
            attributes.odp_caps.general_caps & IBV_ODP_SUPPORT ? "yes" : "no");
    return true;
}

/* Opens the device in a child process, because a process that has used a device must not fork the cases. */
bool find_subject(const char *addr, struct subject *subject)
{
    dl_iterate_phdr(note_library, subject);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        char text[sizeof(subject->device)] = "";
        bool found = describe_device(addr, text, sizeof(text));
        ssize_t written = write(ends[1], text, strlen(text));
        _exit(found && written > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    close(ends[1]);
    ssize_t got = pid > 0 ? read(ends[0], subject->device, sizeof(subject->device) - 1) : -1;
    close(ends[0]);
    int status = 1;
    if (pid > 0)
        waitpid(pid, &status, 0);
    if (got <= 0)
        snprintf(subject->device, sizeof(subject->device), "the search for the device of %s crashed", addr);
    return got > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
