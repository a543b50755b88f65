// SPDX-License-Identifier: BSD-3-Clause
#include "listen/mirror_session.hpp"

#include <filesystem>
#include <sys/socket.h>

#include "config/log.hpp"
#include "store/set_file.hpp"

namespace rpmemd
{

namespace
{

// A reader that sends no request for this time is disconnected, and its image is released.
constexpr int max_reader_idle_ms = 30'000;
constexpr std::size_t max_sets = 1024; // limit of the sets in memory, because a set is never removed

} // namespace

mirror_set *mirror_sets::find(const std::string &name)
{
    const std::lock_guard guard(lock_);
    const auto found = sets_.find(name);
    return found == sets_.end() ? nullptr : found->second.get();
}

// Names without a set file use no memory: a client can invent any number of them.
mirror_set &mirror_sets::of(const std::string &name)
{
    if (mirror_set *const found = find(name); found != nullptr)
        return *found;
    // Without the lock: the disk can hang.
    (void)read_set_file(settings_.poolset_dir, name);
    const std::lock_guard guard(lock_);
    if (const auto found = sets_.find(name); found != sets_.end())
        return *found->second;
    if (sets_.size() >= max_sets)
        throw failure(EMFILE, "rpmemd: limit of " + std::to_string(max_sets) + " sets reached (restart it)");
    return *sets_.emplace(name, std::make_unique<mirror_set>(settings_, address_, name)).first->second;
}

mirror_session::mirror_session(
        mirror_sets &sets, std::unique_ptr<replica::byte_stream> connection, access rights, std::uint64_t number)
    : sets_(sets), connection_(std::move(connection)), rights_(std::move(rights)), number_(number)
{
}

mirror_session::~mirror_session() = default;

void mirror_session::stop() const
{
    shutdown(connection_->fd(), SHUT_RDWR);
}

void mirror_session::run()
{
    replica::greeting greeting;
    greeting.set_features(replica::feature_mirror);
    bool served = replica::send_message(*connection_, replica::deadline(send_timeout_ms), replica::encode(greeting));
    while (served)
        served = serve_one();
    for (const std::string &name : attached_) {
        try {
            sets_.of(name).detach(number_);
        } catch (const std::exception &error) {
            log(log_level::err, error.what());
        }
    }
    stop();
    done_ = true;
}

bool mirror_session::serve_one()
{
    replica::request request;
    const replica::deadline idle(reads_ ? max_reader_idle_ms : 0);
    if (replica::receive(*connection_, idle, request) != replica::received::message)
        return false;
    // A request can arrive after its writer exited. Its promise would fence a live writer.
    if (replica::has_disconnected(connection_->fd()))
        return false;
    return replica::send_message(*connection_, replica::deadline(send_timeout_ms), replica::encode(serve(request)));
}

replica::response mirror_session::serve(const replica::request &request)
{
    replica::response response = replica::response_to(request);
    try {
        execute(request, response);
    } catch (const failure &error) {
        log(log_level::warn, error.what());
        set_failure(response, replica::status_of_errno(error.os_errno()), error.what());
    } catch (const std::exception &error) {
        log(log_level::err, error.what());
        set_failure(response, replica::status::fatal, "internal error (see the rpmemd log on the target)");
    }
    return response;
}

void mirror_session::execute(const replica::request &request, replica::response &response)
{
    using kind = replica::request;
    if (request.body_case() == kind::kKeepAlive)
        return;
    if (request.body_case() < kind::kCreateCopy)
        throw failure(ENOTSUP, "request not supported: this rpmemd serves only mirrored sets");
    // A set file has one name, because a second mirror_set would find its state locked.
    check_set_name(request.set_name());
    const std::string name = std::filesystem::path(request.set_name()).lexically_normal();
    rights_.check(request.body_case(), name);
    mirror_set &set = sets_.of(name);
    const set_claim claim{replica::array_of<replica::set_uuid>(request.set()), replica::from_wire(request.promise())};
    const auto respond = [&](const replica::mirror_state &state) { to_wire(state, *response.mutable_state()); };
    switch (request.body_case()) {
    case kind::kCreateCopy: {
        replica::mirror_state first;
        first.set = claim.set;
        first.copy = request.create_copy().copy();
        first.length = request.create_copy().length();
        return respond(set.create(first));
    }
    case kind::kGetState:
        return respond(set.status());
    case kind::kPrepare:
        return respond(set.prepare(claim));
    case kind::kCommit:
        return respond(set.commit(claim, replica::from_wire(request.commit().record())));
    case kind::kHash:
        return response.set_hashes(set.hash(claim, {request.hash().offset(), request.hash().length()}));
    case kind::kCursor:
        return respond(set.set_cursor(claim, request.cursor().offset()));
    case kind::kResize:
        return respond(set.resize(claim, request.resize().length(), request.resize().reserve()));
    case kind::kAttach:
        attached_.insert(name);
        return set.attach(
                claim, {0, request.attach().lanes(), request.attach().devices()}, number_, *response.mutable_region());
    default:
        reads_ = true;
        attached_.insert(name);
        execute_reader(set, request, response);
    }
}

void mirror_session::execute_reader(mirror_set &set, const replica::request &request, replica::response &response)
{
    using kind = replica::request;
    const auto set_id = replica::array_of<replica::set_uuid>(request.set());
    switch (request.body_case()) {
    case kind::kRead:
        return set.read({set_id, {}}, request.read().any_time(), number_, *response.mutable_image());
    case kind::kHashImage:
        return response.set_hashes(
                set.hash_image({request.hash_image().offset(), request.hash_image().length()}, number_));
    default:
        set.attach_reader(request.attach_reader().devices(), number_, *response.mutable_region());
    }
}

} // namespace rpmemd
