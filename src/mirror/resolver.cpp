// SPDX-License-Identifier: BSD-3-Clause
#include "resolver.hpp"

#include <atomic>
#include <poll.h>

#include "failure.hpp"
#include "message/status.hpp"
#include "step.hpp"

namespace mirror
{

namespace
{

// Maximum number of threads that wait for a name server, in the whole process.
constexpr int max_lookups = 64;
std::atomic<int> lookups = 0;

// Request to the resolver, which its thread and the waiting call share.
struct lookup {
    explicit lookup(const target_settings &of) : to(of)
    {
        if (++lookups > max_lookups) {
            --lookups;
            throw failure(RPMA_MIRROR_E_CONNECTION,
                    "target " + of.name() + ": too many lookups of host names without a response", EAGAIN);
        }
    }
    ~lookup() { --lookups; }
    lookup(const lookup &) = delete;
    lookup &operator=(const lookup &) = delete;

    void run(int flags)
    {
        addrinfo hints{};
        hints.ai_flags = AI_NUMERICSERV | flags;
        hints.ai_socktype = SOCK_STREAM;
        addrinfo *list = nullptr;
        error = getaddrinfo(to.address.c_str(), to.port.c_str(), &hints, &list);
        os_errno = error == EAI_SYSTEM ? errno : error == EAI_MEMORY ? ENOMEM : 0;
        found.reset(list);
    }

    const target_settings to;
    replica::loss finished; // declared at the end of the thread's work
    int error = 0;          // error code of getaddrinfo(3)
    int os_errno = 0;       // errno value of EAI_SYSTEM or EAI_MEMORY
    address_info found;
};

} // namespace

address_info resolve(const target_settings &to, const replica::deadline &until)
{
    const auto request = std::make_shared<lookup>(to);
    request->run(AI_NUMERICHOST);
    if (request->error == EAI_NONAME) {
        if (const int failed = request->finished.open(); failed != 0)
            throw system_failure("cannot create an event", failed);
        const std::int64_t started_ms = replica::now_ms();
        quiet_thread([request] {
            request->run(0);
            request->finished.declare(ESHUTDOWN);
        }).detach();
        if (!replica::wait_for(request->finished.fd(), POLLIN, until) || request->finished.error() == 0)
            throw failure(RPMA_MIRROR_E_TIMEOUT,
                    "target " + to.name() + ": host name not resolved within " +
                            std::to_string(replica::now_ms() - started_ms) +
                            " ms (use the address, or check the name server)",
                    ETIMEDOUT);
    }
    if (replica::is_local_shortage(request->os_errno))
        throw system_failure("target " + to.name() + ": cannot look up the host name", request->os_errno);
    if (request->error != 0)
        throw failure(RPMA_MIRROR_E_CONNECTION, "target " + to.name() + ": " + gai_strerror(request->error));
    return std::move(request->found);
}

} // namespace mirror
