// SPDX-License-Identifier: BSD-3-Clause
#include "client.hpp"

#include <cstdlib>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace
{

constexpr int limit_ms = 30'000;
constexpr std::size_t page = 4096;
enum context : std::uint64_t {
    context_transfer,
    context_request,
    context_answer
};

} // namespace

daemon_process::daemon_process(const scratch &place, const std::vector<std::string> &options)
{
    int ends[2] = {-1, -1};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    std::vector<std::string> words = {getenv("RPMEMD"), "--poolset-dir", place.path, "--log-file", place.path + "/log"};
    words.insert(words.end(), options.begin(), options.end());
    process_ = child_process(std::move(words), {.input = ends[1], .output = ends[1]});
    close(ends[1]);
    channel_ = ends[0];
}

void daemon_process::hang_up()
{
    if (channel_ >= 0)
        close(channel_);
    channel_ = -1;
}

replica::greeting daemon_process::greet()
{
    replica::greeting greeting;
    assert_int_equal(receive(channel_, replica::deadline(limit_ms), greeting), replica::received::message);
    return greeting;
}

replica::response daemon_process::ask(replica::request request)
{
    request.set_number(++number_);
    assert_true(send_message(channel_, replica::deadline(limit_ms), replica::encode(request)));
    replica::response response;
    assert_int_equal(receive(channel_, replica::deadline(limit_ms), response), replica::received::message);
    assert_true(replica::answers(response, request.number(), request.body_case()));
    return response;
}

void daemon_process::send(std::string_view bytes) const
{
    assert_int_equal(::send(channel_, bytes.data(), bytes.size(), MSG_NOSIGNAL), bytes.size());
}

replica::request pool_request(bool create, const std::string &set, std::uint64_t size, std::uint32_t lanes)
{
    replica::request request;
    replica::wire::open_request &body = create ? *request.mutable_create() : *request.mutable_open();
    body.set_features(replica::feature_keep_alive);
    body.set_pool_size(size);
    body.set_lanes(lanes);
    body.set_devices(replica::device_hardware | replica::device_software);
    request.set_set_name(set);
    if (create)
        to_wire(std::bit_cast<replica::pool_attributes>(original_attributes()), *body.mutable_attributes());
    return request;
}

test_lane::test_lane(const replica::wire::region &session, std::uint32_t number)
    : test_lane(session, number, token_of(session))
{
}

test_lane::test_lane(
        const replica::wire::region &session, std::uint32_t number, const replica::token &token, std::uint64_t epoch)
    : session_(session), number_(number), begin_(session.has_header() ? page : 0), memory_(2 * page),
      device_(rpmemd::open_device(session.address().c_str(), replica::device_hardware | replica::device_software))
{
    region_ = rpmemd::register_memory(device_, memory_.data(), memory_.size(),
            RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, "buffers");
    connect(token, epoch);
}

test_lane::~test_lane()
{
    rpma_mr_remote_delete(&data_);
    rpma_mr_remote_delete(&header_);
}

void test_lane::connect(const replica::token &token, std::uint64_t epoch)
{
    const rpmemd::connection_cfg_ptr configuration = rpmemd::lane_configuration();
    rpma_conn_req *request = nullptr;
    assert_int_equal(rpma_conn_req_new(device_.peer.get(), session_.address().c_str(),
                             std::to_string(session_.port()).c_str(), configuration.get(), &request),
            0);
    assert_int_equal(rpma_conn_req_recv(request, region_.get(), page, replica::lane_response_size,
                             reinterpret_cast<void *>(context_answer)),
            0);
    replica::lane_proof plain = replica::make_lane_proof(token, number_);
    replica::epoch_proof proof = replica::make_epoch_proof(token, number_, epoch);
    const rpma_conn_private_data sent = epoch == 0 ? rpma_conn_private_data{plain.data(), replica::lane_proof_size}
                                                   : rpma_conn_private_data{proof.data(), replica::epoch_proof_size};
    rpma_conn *connection = nullptr;
    assert_int_equal(rpma_conn_req_connect(&request, &sent, &connection), 0);
    connection_.reset(connection);
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    assert_int_equal(rpma_conn_next_event(connection, &event), 0);
    connected_ = event == RPMA_CONN_ESTABLISHED;
    if (!connected_)
        return;
    const auto region = [](const std::string &from, rpma_mr_remote **to) {
        assert_int_equal(rpma_mr_remote_from_descriptor(from.data(), from.size(), to), 0);
    };
    region(session_.data_descriptor(), &data_);
    if (session_.has_header())
        region(session_.header_descriptor(), &header_);
    rpma_peer_cfg *peer = nullptr;
    const std::string &descriptor = session_.peer_descriptor();
    assert_int_equal(rpma_peer_cfg_from_descriptor(descriptor.data(), descriptor.size(), &peer), 0);
    assert_int_equal(rpma_conn_apply_remote_peer_cfg(connection, peer), 0);
    assert_int_equal(rpma_peer_cfg_delete(&peer), 0);
}

// Completions arrive in posting order. Completions before the wanted one are removed, too.
bool test_lane::wait(std::uint64_t wanted)
{
    rpma_cq *queue = nullptr;
    assert_int_equal(rpma_conn_get_cq(connection_.get(), &queue), 0);
    const replica::deadline until(limit_ms);
    while (!until.passed()) {
        ibv_wc done{};
        const int result = rpma_cq_get_wc(queue, 1, &done, nullptr);
        if (result == 0 && done.status != IBV_WC_SUCCESS)
            return false;
        if (result == 0 && done.wr_id == wanted)
            return true;
        if (result != 0 && result != RPMA_E_NO_COMPLETION)
            return false;
        if (result == RPMA_E_NO_COMPLETION && has_event())
            return false;
        if (result == RPMA_E_NO_COMPLETION)
            usleep(100);
    }
    fail_msg("nothing came");
    return false;
}

void test_lane::write(std::uint64_t offset, const std::string &bytes)
{
    assert_true(try_write(offset, bytes));
}

bool test_lane::try_write(std::uint64_t offset, const std::string &bytes)
{
    std::memcpy(memory_.data(), bytes.data(), bytes.size());
    return rpma_write(connection_.get(), data_, offset - begin_, region_.get(), 0, bytes.size(),
                   RPMA_F_COMPLETION_ALWAYS, reinterpret_cast<void *>(context_transfer)) == 0 &&
           wait(context_transfer);
}

std::string test_lane::read_from(const rpma_mr_remote *source, std::uint64_t offset, std::size_t length)
{
    assert_int_equal(rpma_read(connection_.get(), region_.get(), 0, source, offset, length, RPMA_F_COMPLETION_ALWAYS,
                             reinterpret_cast<void *>(context_transfer)),
            0);
    assert_true(wait(context_transfer));
    return {reinterpret_cast<const char *>(memory_.data()), length};
}

std::string test_lane::read(std::uint64_t offset, std::size_t length)
{
    return read_from(data_, offset - begin_, length);
}

std::string test_lane::read_header(std::size_t length)
{
    return read_from(header_, 0, length);
}

bool test_lane::can_write_header()
{
    return rpma_write(connection_.get(), header_, 0, region_.get(), 0, 8, RPMA_F_COMPLETION_ALWAYS,
                   reinterpret_cast<void *>(context_transfer)) == 0 &&
           wait(context_transfer);
}

int test_lane::flush(std::uint64_t offset, std::uint64_t length)
{
    const auto type = session_.method() == static_cast<unsigned>(replica::method::persistent_flush)
                              ? RPMA_FLUSH_TYPE_PERSISTENT
                              : RPMA_FLUSH_TYPE_VISIBILITY;
    const int result = rpma_flush(connection_.get(), data_, offset - begin_, length, type, RPMA_F_COMPLETION_ALWAYS,
            reinterpret_cast<void *>(context_transfer));
    if (result != 0)
        return result;
    return wait(context_transfer) ? 0 : -1;
}

int test_lane::request(replica::lane_request_kind kind, const std::vector<replica::range> &ranges)
{
    replica::lane_request request;
    request.kind = kind;
    request.count = static_cast<std::uint32_t>(ranges.size());
    request.sequence = ++sequence_;
    std::copy(ranges.begin(), ranges.end(), request.ranges);
    std::vector<std::byte> bytes(replica::max_lane_request_size);
    bytes.resize(encode(request, bytes.data()));
    return send_raw(bytes);
}

int test_lane::send_raw(std::span<const std::byte> bytes)
{
    std::memcpy(memory_.data(), bytes.data(), bytes.size());
    if (rpma_send(connection_.get(), region_.get(), 0, bytes.size(), RPMA_F_COMPLETION_ALWAYS,
                reinterpret_cast<void *>(context_request)) != 0 ||
            !wait(context_answer))
        return -1;
    replica::lane_response answer;
    assert_true(decode(std::span<const std::byte>(memory_).subspan(page, replica::lane_response_size), answer));
    assert_int_equal(answer.sequence, sequence_);
    assert_int_equal(rpma_recv(connection_.get(), region_.get(), page, replica::lane_response_size,
                             reinterpret_cast<void *>(context_answer)),
            0);
    return answer.error;
}

bool test_lane::has_event(int wait_ms) const
{
    int fd = -1;
    assert_int_equal(rpma_conn_get_event_fd(connection_.get(), &fd), 0);
    pollfd waited{fd, POLLIN, 0};
    return poll(&waited, 1, wait_ms) == 1;
}

bool test_lane::is_gone()
{
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    return has_event(limit_ms) && rpma_conn_next_event(connection_.get(), &event) == 0 &&
           event != RPMA_CONN_ESTABLISHED;
}
