// SPDX-License-Identifier: BSD-3-Clause
#include "impostor.hpp"
#include "transport/shm/identity.hpp"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace softrdma;

namespace
{

class silent_line : public peer_line
{
public:
    void serve(std::weak_ptr<peer_process>) override {}
    bool request_file(std::uint32_t, std::uint64_t) override { return false; }
    bool broken() const noexcept override { return false; }
};

} // namespace

handover hand_over(const impostor &i)
{
    const int completion_fd = reinterpret_cast<const cq_block *>(i.memory + impostor::cq_offset)->event_fd;
    unique_fd passed_fd(is_event_descriptor(completion_fd) ? fcntl(completion_fd, F_DUPFD_CLOEXEC, 0) : -1);
    return {unique_fd(fcntl(i.arena, F_DUPFD_CLOEXEC, 0)), std::move(passed_fd), std::make_unique<silent_line>(),
            static_cast<std::uint32_t>(i.pid)};
}

std::shared_ptr<shm_ep> open_channel(
        const impostor &i, const shm_address &h, const connection_ends &ends, std::string &reason)
{
    return shm_ep::open(h, ends, hand_over(i), reason);
}

impostor make_impostor()
{
    impostor i;
    const int fd = memfd_create("garbage", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ftruncate(fd, impostor::arena_size) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
        abort();
    void *at = mmap(nullptr, impostor::arena_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        abort();
    i.memory = static_cast<std::byte *>(at);
    i.token = new token_bytes{1, 2};
    i.pid = fork();
    if (i.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    i.h.present = true;
    i.h.owner = own_identity();
    i.h.owner.pid = static_cast<std::uint32_t>(i.pid);
    i.h.owner.start_time = 77;
    i.arena = fd;
    i.h.token = *i.token;
    i.h.qp_offset = impostor::qp_offset;
    i.h.qp_size = impostor::qp_size;
    i.h.connection = 5;
    auto *header = reinterpret_cast<arena_header *>(i.memory);
    *header = {.magic = arena_magic,
            .version = arena_version,
            .pid = i.h.owner.pid,
            .token = *i.token,
            .start_time = 77,
            .token_address = reinterpret_cast<std::uintptr_t>(i.token)};
    return i;
}

void end_impostor(impostor &i)
{
    kill(i.pid, SIGKILL);
    waitpid(i.pid, nullptr, 0);
    munmap(i.memory, impostor::arena_size);
    close(i.arena);
    delete i.token;
}

void write_blocks(impostor &i, const connection_ends &ends)
{
    auto *qp = new (i.memory + impostor::words) qp_block{};
    qp->magic = qp_magic;
    qp->ring_capacity = impostor::receives;
    qp->ring_stride = impostor::stride;
    qp->max_sge = 4;
    qp->domain = 1;
    qp->cq_offset = impostor::cq_offset;
    qp->ends = ends.reversed();
    qp->state = state_word(i.h.connection, true);
    qp->access = ~0u;
    auto *cq = new (i.memory + impostor::cq_offset) cq_block{};
    cq->magic = cq_magic;
    cq->event_fd = -1;
}
