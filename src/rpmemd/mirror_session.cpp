// SPDX-License-Identifier: BSD-3-Clause
#include "mirror_session.hpp"

#include <sys/socket.h>

#include "log.hpp"

namespace rpmemd
{

namespace
{

constexpr int send_timeout_ms = 30'000;
// A reader that sends no request for this time is disconnected, and its image is released.
constexpr int max_reader_idle_ms = 30'000;
// Limit of the sets in memory, because a set is never removed.
constexpr std::size_t max_sets = 1024;

} // namespace

mirror_set &mirror_sets::of(const std::string &name)
{
    const std::lock_guard guard(lock_);
    const auto found = sets_.find(name);
    if (found != sets_.end())
        return *found->second;
    if (sets_.size() >= max_sets)
        throw failure(EMFILE, "rpmemd: limit of " + std::to_string(max_sets) + " sets reached (restart it)");
    return *sets_.emplace(name, std::make_unique<mirror_set>(settings_, address_, name)).first->second;
}

mirror_session::mirror_session(mirror_sets &sets, replica::fd_owner connection, std::uint64_t number)
    : sets_(sets), connection_(std::move(connection)), number_(number)
{
}

mirror_session::~mirror_session() = default;

void mirror_session::stop() const
{
    shutdown(connection_.get(), SHUT_RDWR);
}

bool mirror_session::send(const replica::encoded_message &message) const
{
    return replica::send_message(connection_.get(), replica::deadline(send_timeout_ms), message);
}

void mirror_session::run()
{
    while (serve_one()) {
    }
    for (const std::string &name : attached_) {
        try {
            sets_.of(name).detach(number_);
        } catch (const std::exception &problem) {
            log(log_level::err, problem.what());
        }
    }
    stop();
    done_ = true;
}

bool mirror_session::serve_one()
{
    replica::request request;
    const replica::deadline idle(reads_ ? max_reader_idle_ms : 0);
    if (replica::receive(connection_.get(), idle, buffer_, request) != replica::received::message)
        return false;
    // Ignores a request of a writer that has exited: it can arrive late, and its promise would take the set from a live
    // one.
    if (replica::hung_up(connection_.get()))
        return false;
    return send(replica::encode(serve(request)));
}

replica::answer mirror_session::serve(const replica::request &request)
{
    replica::answer answer;
    answer.type = request.type;
    answer.number = request.number;
    try {
        execute(request, answer);
    } catch (const failure &problem) {
        log(log_level::warn, problem.what());
        answer.status = problem.error() == EBUSY         ? replica::status::busy
                        : problem.error() == EMEDIUMTYPE ? replica::status::device_unsupported
                                                         : replica::status_of_errno(problem.error());
        answer.text.assign(problem.what());
    } catch (const std::exception &problem) {
        log(log_level::err, problem.what());
        answer.status = replica::status::fatal;
        answer.text.assign("internal error (see the rpmemd log on the target)");
    }
    return answer;
}

void mirror_session::execute(const replica::request &request, replica::answer &answer)
{
    using replica::request_type;
    const replica::mirror_request &asked = request.mirror;
    if (request.type == request_type::keep_alive)
        return;
    if (request.type < request_type::mirror_create)
        throw failure(ENOTSUP, "request not supported: this rpmemd serves only mirrored sets");
    const std::string name(asked.set_name.view());
    mirror_set &set = sets_.of(name);
    // A writer never has epoch 0.
    if (asked.promise.epoch == 0 && request.type >= request_type::mirror_attach)
        return execute_reader(set, request, answer);
    switch (request.type) {
    case request_type::mirror_create:
        answer.mirror = set.create(asked);
        break;
    case request_type::mirror_status:
        answer.mirror = set.status(asked);
        break;
    case request_type::mirror_prepare:
        answer.mirror = set.prepare(asked);
        break;
    case request_type::mirror_commit:
        answer.mirror = set.commit(asked);
        break;
    case request_type::mirror_hash:
        set.hash(asked, answer.hashes);
        break;
    case request_type::mirror_cursor:
        answer.mirror = set.set_cursor(asked);
        break;
    default:
        attached_.insert(name);
        set.attach(asked, number_, answer.session);
    }
}

void mirror_session::execute_reader(mirror_set &set, const replica::request &request, replica::answer &answer)
{
    using replica::request_type;
    reads_ = true;
    attached_.insert(std::string(request.mirror.set_name.view()));
    if (request.type == request_type::mirror_cursor)
        answer.mirror = set.read(request.mirror, number_);
    else if (request.type == request_type::mirror_hash)
        set.hash_image(request.mirror, number_, answer.hashes);
    else
        set.attach_reader(request.mirror, number_, answer.session);
}

} // namespace rpmemd
