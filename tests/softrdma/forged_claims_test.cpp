// SPDX-License-Identifier: BSD-3-Clause
// White-box: a process of another user that claims to be a process of this user. The device accesses no process and
// sends no data to the socket before the kernel has reported its owner.
#include "transport/shm/fd_message.hpp"
#include "transport/shm/identity.hpp"
#include "wire/cm_message.hpp"
#include "wire/frame.hpp"

#include <arpa/inet.h>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <csignal>

extern "C" {
#include "fixture.h"
}

using namespace softrdma;

namespace
{

constexpr uid_t unprivileged_uid = 65534;

int file = -1;

struct plan {
    std::uint16_t port; // in network order
    pid_t victim;
    softrdma::shm_address shm_address; // address of the victim, except secrets that an unknown peer lacks
};

// Result of the unknown peer, as its exit code.
enum verdict {
    unharmed = 0,
    failed = 1,
    lock_lost = 2,
    was_told_something = 3,
};

bool victim_holds_lock(pid_t victim)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1, .l_pid = 0};
    return fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == victim;
}

verdict call_as(const plan &p)
{
    const fd_server_address address(p.shm_address.fd_server);
    const unique_fd fd_server = open_local_socket();
    if (bind(fd_server.get(), address.get(), address.size) != 0 || listen(fd_server.get(), 4) != 0)
        return failed;
    const sockaddr_in to{
            .sin_family = AF_INET, .sin_port = p.port, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    const unique_fd caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(caller.get(), reinterpret_cast<const sockaddr *>(&to), sizeof(to)) != 0)
        return failed;
    cm_handshake request;
    request.qpn = 77;
    request.data.size = request_private_size;
    request.shm_address = p.shm_address;
    const cm_payload payload = encode(request);
    const frame_headers headers = encode(packet{.op = opcode::cm_request}, payload.size);
    if (send(caller.get(), headers.bytes.data(), headers.size, MSG_NOSIGNAL) < 0 ||
            send(caller.get(), payload.bytes.data(), payload.size, MSG_NOSIGNAL) < 0)
        return failed;
    // The victim responds when it has selected the path to its peer.
    pollfd answered{.fd = caller.get(), .events = POLLIN, .revents = 0};
    if (poll(&answered, 1, time_limit_ms) != 1)
        return failed;
    const unique_fd fd_peer(accept4(fd_server.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    char byte = 0;
    if (fd_peer.get() >= 0 && recv(fd_peer.get(), &byte, 1, 0) > 0)
        return was_told_something;
    return victim_holds_lock(p.victim) ? unharmed : lock_lost;
}

// Forks before any verbs call of this process.
pid_t start_unknown_peer(int &out)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        plan p;
        if (read(ends[0], &p, sizeof(p)) != sizeof(p) ||
                setresgid(unprivileged_uid, unprivileged_uid, unprivileged_uid) != 0 ||
                setresuid(unprivileged_uid, unprivileged_uid, unprivileged_uid) != 0)
            _exit(failed);
        _exit(call_as(p));
    }
    close(ends[0]);
    out = ends[1];
    return pid;
}

DEFINE_TEST(a_caller_of_another_user_reaches_nothing, nullptr, nullptr)
{
    if (geteuid() != 0)
        skip_because("only root can become another user");
    int out = -1;
    void *memory = map_file(4096, MAP_SHARED, &file);
    const pid_t unknown_peer = start_unknown_peer(out);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1, .l_pid = 0};
    assert_int_equal(fcntl(file, F_SETLK, &lock), 0);
    pair p{};
    open_listener(&p, "127.0.0.1");
    plan forged{.port = rdma_get_src_port(p.listener), .victim = getpid(), .shm_address = {}};
    forged.shm_address.present = true;
    forged.shm_address.owner = own_identity();
    forged.shm_address.token = {1, 2};
    forged.shm_address.qp_offset = 1 << 23;
    forged.shm_address.qp_size = 1 << 17;
    forged.shm_address.fd_server = 0x5eed0000u + static_cast<std::uint32_t>(getpid());
    assert_int_equal(write(out, &forged, sizeof(forged)), sizeof(forged));
    rdma_cm_event *request = take_request(&p);
    const options few{};
    create_queues(&p.server, nullptr, &few, true);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    rdma_conn_param param{};
    assert_int_equal(rdma_accept(p.server.id, &param), 0);
    assert_int_equal(exit_code_of(unknown_peer), unharmed);
    close(out);
    close_pair(&p);
    munmap(memory, 4096);
    close(file);
}

} // namespace
