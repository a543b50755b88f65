// SPDX-License-Identifier: BSD-3-Clause
#include "serve/session.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "channel/stream.hpp"
#include "config/log.hpp"
#include "lanes/lane_server.hpp"
#include "store/pool_record.hpp"
#include "store/process_count.hpp"
#include "store/takeover.hpp"

namespace rpmemd
{

namespace
{

constexpr std::uint32_t max_keep_alive_ms = 24 * 3600 * 1000;

const char *to_string(replica::method method)
{
    switch (method) {
    case replica::method::messages:
        return "messages";
    case replica::method::persistent_flush:
        return "flush to persistence";
    default:
        return "flush to visibility";
    }
}

class session
{
public:
    explicit session(const config &settings) : settings_(settings), requests_to_end_(open_takeover_requests()) {}

    exit_status run()
    {
        if (!greet())
            return exit_failed;
        exit_status status = exit_failed;
        while (!receive_one(status)) {
        }
        finish(status);
        return status;
    }

private:
    static bool send(const std::string &frame)
    {
        return replica::send_message(STDOUT_FILENO, replica::deadline(send_timeout_ms), frame);
    }

    bool greet()
    {
        replica::greeting greeting;
        greeting.set_features(replica::feature_keep_alive | replica::feature_record | replica::feature_group);
        const unsigned others = processes_like_this();
        if (others >= settings_.limits.sessions) {
            greeting.set_error(EUSERS);
            greeting.set_text(std::to_string(others) +
                              " other sessions of this user: limit reached (see max-sessions in rpmemd.conf)");
            log(log_level::err, greeting.text());
        }
        return send(replica::encode(greeting)) && greeting.error() == 0;
    }

    replica::deadline next_deadline() const
    {
        const int session_timeout_ms = static_cast<int>(settings_.session_timeout_s) * 1000;
        // A client that opened a pool without keep-alive messages may be silent forever.
        if (session_timeout_ms == 0 || (lanes_ && keep_alive_ms_ == 0))
            return replica::deadline(0);
        const auto client_timeout_ms = std::min<std::uint64_t>(std::uint64_t{keep_alive_ms_} * 3, INT32_MAX);
        return replica::deadline(std::max(session_timeout_ms, static_cast<int>(client_timeout_ms)));
    }

    // Returns false if the client is silent and another session of this client needs the parts.
    bool await_request(const replica::deadline &until)
    {
        bool parts_requested = false;
        for (;;) {
            // A pending request counts as a keep-alive message, even if this process was stopped.
            pollfd waited[] = {{STDIN_FILENO, POLLIN, 0}, {requests_to_end_.get(), POLLIN, 0}};
            const int left_ms = parts_requested ? silence_.left_ms() : until.left_ms();
            const int ready = poll(waited, std::size(waited), left_ms);
            if ((ready < 0 && errno != EINTR) || waited[0].revents != 0 || until.passed())
                break;
            signalfd_siginfo ignored{};
            if (ready > 0 && waited[1].revents != 0)
                parts_requested =
                        read(requests_to_end_.get(), &ignored, sizeof(ignored)) > 0 && lanes_ && keep_alive_ms_ != 0;
            if (parts_requested && silence_.passed())
                return false;
        }
        silence_ = replica::deadline(static_cast<int>(keep_alive_ms_) * missed_keep_alives);
        return true;
    }

    // Receives and serves one request. Returns true at the end of the session, with the exit status.
    bool receive_one(exit_status &status)
    {
        const replica::deadline until = next_deadline();
        if (!await_request(until)) {
            log(log_level::err, "client timed out: session ended because another session of the client needs the pool");
            return true;
        }
        replica::request request;
        switch (replica::receive(STDIN_FILENO, until, request)) {
        case replica::received::message:
            return serve(request, status);
        case replica::received::ended:
            log(log_level::err, "client disconnected without closing the pool");
            break;
        case replica::received::timed_out:
            log(log_level::err, "client timed out: no message received");
            break;
        case replica::received::other_version:
            log(log_level::err, "client uses another version of the protocol: session closed");
            status = exit_rejected;
            break;
        case replica::received::malformed:
            log(log_level::err, "client sent a malformed request: session closed");
            status = exit_rejected;
            break;
        case replica::received::broken:
            log(log_level::err, "connection to the client failed");
            break;
        }
        return true;
    }

    bool serve(const replica::request &request, exit_status &status)
    {
        replica::response response = replica::response_to(request);
        const bool opens = request.has_create() || request.has_open();
        if (opens && lanes_) {
            log(log_level::err, "client requested a second pool: session closed");
            status = exit_rejected;
            return true;
        }
        try {
            execute(request, response);
        } catch (const failure &error) {
            log(log_level::err, error.what());
            set_failure(response, replica::status_of_errno(error.os_errno()), error.what());
        } catch (const std::bad_alloc &) {
            log(log_level::err, "out of memory");
            set_failure(response, replica::status::fatal, "target: out of memory");
        }
        if (!send(replica::encode(response)))
            return true;
        if (request.has_close())
            status = exit_done;
        return request.has_close();
    }

    void execute(const replica::request &request, replica::response &response)
    {
        using kind = replica::request;
        const std::string &name = request.set_name();
        switch (request.body_case()) {
        case kind::kCreate:
            return open(name, request.create(), true, *response.mutable_region());
        case kind::kOpen:
            return open(name, request.open(), false, *response.mutable_region());
        case kind::kSetAttributes:
            return set_attributes(replica::from_wire(request.set_attributes()));
        case kind::kClose:
            return close(request.close().remove());
        case kind::kGetState:
            return to_wire(pool_record(settings_, name).read(), *response.mutable_state());
        case kind::kPrepare:
            return to_wire(pool_record(settings_, name).prepare(replica::from_wire(request.promise())),
                    *response.mutable_state());
        case kind::kHash:
            return response.set_hashes(hash(name, {request.hash().offset(), request.hash().length()}));
        case kind::kCommit:
            return to_wire(commit(request), *response.mutable_state());
        case kind::kKeepAlive:
            return;
        default:
            throw failure(ENOTSUP, "request not supported: mirrored sets require rpmemd --listen");
        }
    }

    void open(
            const std::string &name, const replica::wire::open_request &request, bool create, replica::wire::region &to)
    {
        log(log_level::notice, std::string(create ? "create" : "open") + " the set '" + name + "', " +
                                       std::to_string(request.pool_size()) + " bytes, " +
                                       std::to_string(request.lanes()) + " lanes");
        if (request.lanes() == 0)
            throw failure(EINVAL, "session rejected: at least one lane is required");
        record_.emplace(settings_, name);
        if ((request.features() & replica::feature_record) == 0 && record_->read().committed.epoch != 0)
            throw failure(ENOTSUP, "pool has several targets: not supported by this client (update librpmem)");
        pool_.emplace(create ? pool::create(settings_, name, request.pool_size(),
                                       std::bit_cast<pool_attributes>(replica::from_wire(request.attributes())))
                             : pool::open(settings_, name, request.pool_size()));
        created_ = create;
        try {
            if (create)
                record_->remove();
            lanes_.emplace(settings_, *pool_, lane_request{request.pool_size(), request.lanes(), request.devices()},
                    lane_params{data_address()});
            lanes_->describe(to);
            // Populates after the registration, which takes longer for populated pages.
            pool_->memory().populate();
        } catch (...) {
            forget();
            throw;
        }
        keep_alive_ms_ = std::min<std::uint32_t>(request.keep_alive_ms(), max_keep_alive_ms);
        silence_ = replica::deadline(static_cast<int>(keep_alive_ms_) * missed_keep_alives);
        to.set_features(to.features() | (request.features() & replica::feature_keep_alive));
        to.set_size(pool_->memory().size());
        to.set_has_header(pool_->has_header());
        to_wire(std::bit_cast<replica::pool_attributes>(pool_->attributes()), *to.mutable_attributes());
        log_opened();
    }

    void log_opened() const
    {
        const policy &chosen = lanes_->chosen();
        log(log_level::notice, "the pool is open: " + std::to_string(lanes_->lanes()) + " lanes, by " +
                                       to_string(chosen.method) + ", level " +
                                       describe(chosen.level, lanes_->flushes_natively()) + "\n" +
                                       describe(pool_->memory().medium(), settings_.persist_apm));
    }

    void set_attributes(const replica::pool_attributes &attributes)
    {
        if (!pool_)
            throw failure(EINVAL, "no pool is open");
        pool_->set_attributes(std::bit_cast<pool_attributes>(attributes));
    }

    replica::mirror_state commit(const replica::request &request) const
    {
        if (!pool_)
            throw failure(EINVAL, "no pool is open");
        return record_->commit(replica::array_of<replica::set_uuid>(request.set()), request.commit());
    }

    std::string hash(const std::string &name, replica::range of) const
    {
        if (!pool_)
            throw failure(EINVAL, "no pool is open");
        const pool_memory &memory = pool_->memory();
        if (!replica::range_fits(of, 0, memory.size()))
            throw failure(EINVAL, "hash request rejected: range outside the pool");
        return hash_parts(name, {memory.address() + of.offset, of.length});
    }

    // Revokes access to the pool before the response is sent.
    void close(bool remove)
    {
        lanes_.reset();
        if (pool_ && remove && created_)
            rollback_create();
        pool_.reset();
    }

    void rollback_create()
    {
        pool_->rollback_create();
        try {
            record_->remove();
        } catch (const failure &error) {
            log(log_level::err, error.what());
        }
    }

    void forget()
    {
        lanes_.reset();
        if (created_)
            rollback_create();
        pool_.reset();
        created_ = false;
    }

    // Removes a new pool that its creator never connected to, because no client can use it.
    void finish(exit_status status)
    {
        if (!pool_)
            return;
        const bool used = lanes_ && lanes_->was_used();
        lanes_.reset();
        if (status != exit_done && created_ && !used) {
            log(log_level::notice, "new pool removed: client never connected for data");
            rollback_create();
        }
        pool_.reset();
    }

    const config &settings_;
    std::optional<pool> pool_;
    std::optional<pool_record> record_; // record of the last requested set
    bool created_ = false;
    std::optional<lane_server> lanes_;
    std::uint32_t keep_alive_ms_ = 0;
    const replica::fd_owner requests_to_end_;
    replica::deadline silence_{0}; // deadline of the next message of the client
};

} // namespace

exit_status serve_client(const config &settings)
{
    return session(settings).run();
}

} // namespace rpmemd
