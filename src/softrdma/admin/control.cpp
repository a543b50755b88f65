// SPDX-License-Identifier: BSD-3-Clause
#include "admin/control.hpp"
#include "base/local_socket.hpp"
#include "base/log.hpp"
#include "fault/rules.hpp"
#include "pmem/power_cut.hpp"
#include "progress/event_loop.hpp"
#include "verbs/qp.hpp"
#include "verbs/tap.hpp"
#include "base/process.hpp"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

namespace softrdma::control
{

namespace
{

constexpr std::size_t max_text_size = 60000; // maximum bytes of one datagram
constexpr unsigned max_requests = 8;         // limit before other sockets are served

std::string report()
{
    const region_table::counts all = region_table::instance().totals();
    char line[192];
    snprintf(line, sizeof(line), "process regions=%zu bytes=%" PRIu64 " windows=%zu faults=%s trace=%s powercut=%s\n",
            all.regions, all.bytes, all.windows, fault::active() ? "on" : "off",
            tap::current() != nullptr ? "on" : "off", pmem::power_cut::armed() ? "armed" : "off");
    std::string text = line + report_queue_pairs();
    if (text.size() > max_text_size)
        text.resize(text.rfind('\n', max_text_size) + 1);
    return text;
}

std::string inject(std::string_view rules)
{
    std::string reason;
    return fault::add(rules, reason) ? "ok\n" : "error " + reason + "\n";
}

class control_socket : public event_handler
{
public:
    explicit control_socket(int fd) : fd_(fd) {}

    poll_result ready(std::uint32_t) override
    {
        std::array<char, 4096> text;
        sockaddr_un from{};
        iovec segment{text.data(), text.size()};
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> extra;
        // Limits the requests per wakeup; the rest keeps the descriptor readable.
        for (unsigned requests = 0; requests < max_requests; ++requests) {
            msghdr message = message_of({&segment, 1}, extra, &from);
            const ssize_t size = recvmsg(fd_, &message, MSG_DONTWAIT);
            if (size < 0)
                return poll_result::progress;
            if (const auto sender = sender_of(message); sender && (sender->uid == 0 || sender->uid == geteuid()))
                respond({text.data(), static_cast<std::size_t>(size)}, from, message.msg_namelen);
        }
        return poll_result::progress;
    }

private:
    void respond(std::string_view request, const sockaddr_un &to, socklen_t size)
    {
        const auto reply = [&](const std::string &text) {
            sendto(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr *>(&to),
                    size);
        };
        if (request == "report")
            return reply(report());
        if (request.starts_with("fault "))
            return reply(inject(request.substr(6)));
        if (request != "powercut")
            return reply("error unknown request\n");
        if (!pmem::power_cut::armed())
            return reply("error power cut not armed (start the program with SOFTRDMA_POWERCUT=armed)\n");
        reply("ok\n");
        pmem::power_cut::cut();
    }

    const int fd_;
};

} // namespace

void start()
{
    static constinit process::single<const bool> started;
    started.get([] {
        unique_fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        std::uint64_t number = 0; // random, so that no other process can occupy the name
        if (fd.get() < 0 || getrandom(&number, sizeof(number), 0) != sizeof(number))
            return &process::no;
        const local_address name("softrdma/%d/%016" PRIx64, getpid(), number);
        event_loop *a = event_loop::get();
        if (a == nullptr || !set_option(fd.get(), SOL_SOCKET, SO_PASSCRED, 1) ||
                bind(fd.get(), name.get(), name.size) != 0) {
            log::write(log::level::warn, "control socket: not created: %s (softrdma ps, fault and powercut fail)",
                    strerror(errno));
            return &process::no;
        }
        const auto served = std::make_shared<control_socket>(fd.get());
        const bool watched = a->watch(fd.get(), EPOLLIN, served) != 0;
        if (watched)
            static_cast<void>(fd.release());
        return watched ? &process::yes : &process::no;
    });
}

} // namespace softrdma::control
